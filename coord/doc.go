// Package coord connects transactions to memory nodes.
package coord
