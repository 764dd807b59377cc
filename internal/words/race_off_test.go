//go:build !race

package words_test

const scale = 1
