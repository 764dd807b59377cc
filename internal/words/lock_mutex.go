//go:build !amd64 || race

package words

import "sync"

// Lock is a mutual exclusion for short sections on data paths.
type Lock struct{ sync.Mutex }
