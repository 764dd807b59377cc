package main

import (
	"fmt"
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a line of a plot.
type curve struct {
	name   string
	color  color.Color
	dashed bool
	points plotter.XYs
}

// From the palette of Okabe and Ito, which the colour-blind can tell apart.
var (
	blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	orange = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
)

const (
	width  = 16 * vg.Centimeter
	height = 10 * vg.Centimeter
)

// plot draws all plots.
func (f *figures) plot(published map[string][]point) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	xs := func(n []int, y func(i int) float64) (points plotter.XYs) {
		for i, x := range n {
			points = append(points, plotter.XY{X: float64(x), Y: y(i)})
		}
		return points
	}
	of := func(system string, y func(p point) float64) (points plotter.XYs) {
		for _, p := range published[system] {
			points = append(points, plotter.XY{X: float64(p.threads), Y: y(p)})
		}
		return points
	}
	committed := func(p point) float64 { return p.committed }
	p50 := func(p point) float64 { return p.p50 }
	p99 := func(p point) float64 { return p.p99 }
	const theirs = ", measured on 200 Gb/s CX-6 (published)"
	for _, p := range []struct {
		file, title, x, y string
		logX, logY        bool
		curves            []curve
	}{
		{"threads-throughput.svg", "SmallBank, 1 compute node, 2 memory nodes, 2 copies", "threads, each with 8 transactions in flight", "million committed transactions per second", false, false, []curve{
			{"fjord, simulated 100 Gb/s CX-6", blue, false, xs(threads, func(i int) float64 { return f.threads[i].TPS / 1e6 })},
			{"SMART" + theirs, green, true, of("SMART", committed)},
			{"FORD" + theirs, orange, true, of("FORD", committed)},
		}},
		{"threads-latency.svg", "SmallBank, 1 compute node, 2 memory nodes, 2 copies", "threads, each with 8 transactions in flight", "p50 and p99 of latency, µs", false, true, []curve{
			{"fjord, simulated 100 Gb/s CX-6", blue, false, xs(threads, func(i int) float64 { return f.threads[i].Latency.P50 })},
			{"", blue, false, xs(threads, func(i int) float64 { return f.threads[i].Latency.P99 })},
			{"SMART" + theirs, green, true, of("SMART", p50)},
			{"", green, true, of("SMART", p99)},
			{"FORD" + theirs, orange, true, of("FORD", p50)},
			{"", orange, true, of("FORD", p99)},
		}},
		{"coordinators-throughput.svg", "SmallBank, simulated CX-6: 4 compute nodes, 3 memory nodes, 3 copies", "coordinators", "million committed transactions per second", true, false, []curve{
			{"fjord", blue, false, xs(coordinators, func(i int) float64 { return f.coordinators[i].TPS / 1e6 })},
		}},
		{"coordinators-latency.svg", "SmallBank, simulated CX-6: 4 compute nodes, 3 memory nodes, 3 copies", "coordinators", "latency, µs", true, true, []curve{
			{"p50", blue, false, xs(coordinators, func(i int) float64 { return f.coordinators[i].Latency.P50 })},
			{"p99", orange, true, xs(coordinators, func(i int) float64 { return f.coordinators[i].Latency.P99 })},
		}},
	} {
		c := plot.New()
		c.Title.Text, c.X.Label.Text, c.Y.Label.Text = p.title, p.x, p.y
		c.Title.Padding = vg.Points(6)
		c.Add(plotter.NewGrid())
		c.Legend.Top, c.Legend.Left, c.Legend.Padding = true, true, vg.Points(3)
		for _, l := range p.curves {
			if err := l.draw(c); err != nil {
				return fmt.Errorf("%s: %w", p.file, err)
			}
		}
		if p.logX {
			c.X.Scale, c.X.Tick.Marker = plot.LogScale{}, ticks(coordinators)
		} else {
			c.X.Min, c.X.Tick.Marker = 0, ticks([]int{1, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96})
		}
		if p.logY {
			c.Y.Scale = plot.LogScale{}
			c.Y.Tick.Marker = ticks([]int{2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000})
			c.Y.Min *= 0.8
			c.Y.Max *= 2.5 // room for the legend
		} else {
			c.Y.Min = 0
			c.Y.Max *= 1.25
		}
		if err := c.Save(width, height, p.file); err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
	}
	return nil
}

// draw adds a line with points.
func (l *curve) draw(c *plot.Plot) error {
	line, points, err := plotter.NewLinePoints(l.points)
	if err != nil {
		return err
	}
	line.Color, line.Width, points.Color, points.Radius = l.color, vg.Points(1.5), l.color, vg.Points(2.5)
	points.Shape = draw.CircleGlyph{}
	if l.dashed {
		line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		points.Shape = draw.BoxGlyph{}
	}
	c.Add(line, points)
	if l.name != "" {
		c.Legend.Add(l.name, line, points)
	}
	return nil
}

// ticks are marks at given values.
type ticks []int

// Ticks returns those within the axis.
func (t ticks) Ticks(lo, hi float64) (all []plot.Tick) {
	for _, n := range t {
		if x := float64(n); x >= lo && x <= hi {
			all = append(all, plot.Tick{Value: x, Label: strconv.Itoa(n)})
		}
	}
	return all
}
