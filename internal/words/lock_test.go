package words_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"fjord/internal/words"
)

// TestLockExcludes: a counter that is no atomic loses nothing under the lock, also
// when its holder is taken off the processor.
func TestLockExcludes(t *testing.T) {
	var l words.Lock
	var inside atomic.Int32
	counter, n := 0, rounds()/4
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range n {
				l.Lock()
				if inside.Add(1) != 1 {
					t.Error("two holders at once")
				}
				counter++
				if i%1000 == 0 {
					runtime.Gosched()
				}
				inside.Add(-1)
				l.Unlock()
			}
		}()
	}
	wg.Wait()
	if counter != 4*n {
		t.Errorf("%d rounds of 4 workers left %d", n, counter)
	}
}

// TestReleaseComesAfterWhatWasWrittenBefore: who sees the released value sees the
// words that were stored before it.
func TestReleaseComesAfterWhatWasWrittenBefore(t *testing.T) {
	shared, from := aligned(256), aligned(64)
	err := reads(rounds(), func(i uint64) {
		for w := range 8 {
			*word(from, 8*w) = i
		}
		words.StoreWords(ptr(shared, 0), ptr(from, 0), 8)
		words.Release(word(shared, 128), i)
	}, func() error {
		seen := atomic.LoadUint64(word(shared, 128))
		to := aligned(64)
		words.LoadWords(ptr(to, 0), ptr(shared, 0), 8)
		for w := range 8 {
			if got := *word(to, 8*w); got < seen {
				t.Errorf("round %d was released, word %d is still of round %d", seen, w, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
