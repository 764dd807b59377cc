package main

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
)

//go:embed published.csv
var publishedText string

// point is a published figure.
type point struct {
	threads   int
	committed float64 // Mtxn/s
	p50, p99  float64 // us
	aborted   float64 // share of the attempts
}

// readPublished reads the published figures by system.
func readPublished() (map[string][]point, error) {
	r := csv.NewReader(strings.NewReader(publishedText))
	r.Comment = '#'
	r.FieldsPerRecord = 7
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("published.csv: %w", err)
	}
	all := map[string][]point{}
	for _, row := range rows {
		var v [6]float64
		for i := range v {
			if v[i], err = strconv.ParseFloat(row[i+1], 64); err != nil {
				return nil, fmt.Errorf("published.csv: %w", err)
			}
		}
		all[row[0]] = append(all[row[0]], point{int(v[0]), v[2], v[3], v[4], v[5]})
	}
	return all, nil
}

// at finds the figure of that many threads.
func at(points []point, threads int) point {
	for _, p := range points {
		if p.threads == threads {
			return p
		}
	}
	return point{}
}
