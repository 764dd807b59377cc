//go:build race

package words_test

const scale = 16 // the detector makes every word dear
