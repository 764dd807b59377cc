package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

var (
	_ = [1]struct{}{}[LogOffToken]
	_ = [1]struct{}{}[LogOffEpoch-8]
	_ = [1]struct{}{}[LogOffState-16]
	_ = [1]struct{}{}[LogOffSum-24]
	_ = [1]struct{}{}[LogOffLength-32]
	_ = [1]struct{}{}[LogOffCount-36]
	_ = [1]struct{}{}[logOffReserved-40]
	_ = [1]struct{}{}[LogHeaderSize-64]
	_ = [1]struct{}{}[maxLogSize%8]
)

type testImage struct {
	cell int
	b    []byte
}

func buildLog(t testing.TB, buf []byte, token, epoch uint64, cells []LogCell, images []testImage) []byte {
	t.Helper()
	var l LogBuilder
	l.Begin(buf, token, epoch, len(cells))
	addAll(&l, cells, images)
	n, err := l.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// addAll adds cells, with those images that there are.
func addAll(l *LogBuilder, cells []LogCell, images []testImage) {
	for i, c := range cells {
		var image []byte
		if len(images) > 0 && images[0].cell == i {
			image, images = images[0].b, images[1:]
		}
		l.Add(c.Addr, c.Old, c.New, image)
	}
}

func checkLog(t testing.TB, e *LogEntry, token, epoch uint64, cells []LogCell, images []testImage) {
	t.Helper()
	if e.Token != token || e.Epoch != epoch || e.Cells() != len(cells) || e.ImageCount() != len(images) {
		t.Fatalf("token %d, epoch %d, %d cells, %d images", e.Token, e.Epoch, e.Cells(), e.ImageCount())
	}
	for i, c := range cells {
		if e.Cell(i) != c {
			t.Fatalf("cell %d is %+v, want %+v", i, e.Cell(i), c)
		}
	}
	i := 0
	for cell, image := range e.Images {
		if w := images[i]; cell != w.cell || !bytes.Equal(image[8:], w.b[8:]) || Lock(image) != 0 || len(image) != cap(image) {
			t.Fatalf("image %d is %x of cell %d, want %x of %d", i, image, cell, w.b, w.cell)
		}
		i++
	}
	if i != len(images) {
		t.Fatalf("%d images, want %d", i, len(images))
	}
}

// sampleImage returns an old image of a cell, and its version.
func sampleImage(rng *rand.Rand, addr Addr) (Version, []byte) {
	if rng.IntN(4) == 0 {
		return 0, make([]byte, HeaderSize)
	}
	v := Version(rng.Uint64())&CounterMask | 1
	key, value := randomBytes(rng, rng.IntN(40)), randomBytes(rng, rng.IntN(300))
	b := make([]byte, ImageSize(len(key), len(value)))
	EncodeCell(b, addr, v, rng.Uint64(), KindRecord, key, value)
	binary.LittleEndian.PutUint64(b, rng.Uint64()) // whoever logs it holds its lock
	return v, b
}

func sampleLog(rng *rand.Rand, ncells int) (cells []LogCell, images []testImage, size int) {
	bytesOf := 0
	for i := range ncells {
		c := LogCell{Addr: Addr(rng.Uint64()), Old: Version(rng.Uint64()), New: Version(rng.Uint64())}
		if rng.IntN(2) == 0 {
			var b []byte
			c.Old, b = sampleImage(rng, c.Addr)
			images = append(images, testImage{i, b})
			if c.Old != 0 {
				bytesOf += len(b)
			}
		}
		cells = append(cells, c)
	}
	return cells, images, LogSize(ncells, bytesOf)
}

// How far a new image reaches stands beside the length of the old one, under the sum, and disturbs it not.
func TestLogCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for n := range 20 {
		cells, images, size := sampleLog(rng, n)
		var l LogBuilder
		b := make([]byte, size)
		l.Begin(b, 1, 2, n)
		l.Covers(9) // of no cell
		left := images
		for i, c := range cells {
			var image []byte
			if len(left) > 0 && left[0].cell == i {
				image, left = left[0].b, left[1:]
			}
			l.Add(c.Addr, c.Old, c.New, image)
			l.Covers(1<<31 - 1 - i)
		}
		if _, err := l.Finish(); err != nil {
			t.Fatal(err)
		}
		e, err := DecodeLog(b)
		if err != nil {
			t.Fatal(err)
		}
		checkLog(t, &e, 1, 2, cells, images)
		for i := range cells {
			if got := e.Covered(i); got != 1<<31-1-i {
				t.Errorf("cell %d of %d: %d bytes", i, n, got)
			}
		}
		if n > 0 {
			b[LogHeaderSize+LogCellSize-1] ^= 1
			if _, err := DecodeLog(b); !errors.Is(err, ErrLogCorrupt) {
				t.Errorf("with another length: %v", err)
			}
		}
	}
}

func TestLogRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for n := range 50 {
		cells, images, size := sampleLog(rng, n)
		slot := randomBytes(rng, size+rng.IntN(100))
		tail := bytes.Clone(slot[size:])
		token, epoch := rng.Uint64(), rng.Uint64()
		b := buildLog(t, slot, token, epoch, cells, images)
		if len(b) != size || size%8 != 0 || !bytes.Equal(slot[size:], tail) {
			t.Fatalf("%d bytes, LogSize said %d", len(b), size)
		}
		e, err := DecodeLog(slot)
		if err != nil {
			t.Fatal(err)
		}
		if e.State != LogOpen || e.Size() != size {
			t.Fatalf("state %v, size %d", e.State, e.Size())
		}
		checkLog(t, &e, token, epoch, cells, images)
	}
}

func TestLogSumIsXXH64OfTheConcatenation(t *testing.T) {
	cells, images, size := sampleLog(rand.New(rand.NewPCG(11, 12)), 7)
	b := buildLog(t, make([]byte, size), 1, 2, cells, images)
	words := append(bytes.Clone(b[:LogOffState]), b[LogOffLength:logOffReserved+8]...)
	want := xxhash.Sum64(append(words, b[LogHeaderSize:LogHeaderSize+7*LogCellSize]...))
	if got := binary.LittleEndian.Uint64(b[LogOffSum:]); got != want {
		t.Errorf("sum %#x, want %#x", got, want)
	}
}

func TestLogStateIsOverwrittenInPlace(t *testing.T) {
	cells, images, size := sampleLog(rand.New(rand.NewPCG(13, 14)), 3)
	b := buildLog(t, make([]byte, size), 1, 2, cells, images)
	for _, s := range []LogState{LogAborted, LogCommitted, LogOpen} {
		binary.LittleEndian.PutUint64(b[LogOffState:], uint64(s))
		if e, err := DecodeLog(b); err != nil || e.State != s {
			t.Errorf("%v: %v, %v", s, e.State, err)
		}
	}
	for _, s := range []uint64{0, 4, 1 << 63} {
		binary.LittleEndian.PutUint64(b[LogOffState:], s)
		if _, err := DecodeLog(b); !errors.Is(err, ErrLogCorrupt) || !strings.Contains(err.Error(), "state") {
			t.Errorf("state %d: %v", s, err)
		}
	}
}

func TestLogTooLarge(t *testing.T) {
	cells, images, size := sampleLog(rand.New(rand.NewPCG(15, 16)), 5)
	for n := range size {
		backing := make([]byte, size+64)
		var l LogBuilder
		l.Begin(backing[:n], 1, 2, len(cells))
		addAll(&l, cells, images)
		if _, err := l.Finish(); !errors.Is(err, ErrLogTooLarge) {
			t.Fatalf("%d of %d bytes: %v", n, size, err)
		}
		if !allZero(backing[n:]) {
			t.Fatalf("%d of %d bytes: wrote behind the buffer", n, size)
		}
	}
}

func TestLogBuilderMisuse(t *testing.T) {
	image := make([]byte, HeaderSize)
	for _, c := range []struct {
		name string
		do   func(l *LogBuilder)
	}{
		{"a cell too few", func(*LogBuilder) {}},
		{"a cell too many", func(l *LogBuilder) { l.Add(1, 2, 3, nil); l.Add(1, 2, 3, nil); l.Add(1, 2, 3, nil) }},
		{"image without a header", func(l *LogBuilder) { l.Add(1, 2, 3, image[:32]) }},
		{"image of odd length", func(l *LogBuilder) { l.Add(1, 2, 3, make([]byte, HeaderSize+1)) }},
	} {
		var l LogBuilder
		l.Begin(make([]byte, 4096), 1, 2, 3)
		l.Add(1, 2, 3, nil)
		c.do(&l)
		l.Add(1, 2, 3, image) // a right call behind a wrong one mends nothing
		if _, err := l.Finish(); err == nil || errors.Is(err, ErrLogTooLarge) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLogEmptyAndShort(t *testing.T) {
	if _, err := DecodeLog(make([]byte, 4096)); !errors.Is(err, ErrLogEmpty) || errors.Is(err, ErrLogCorrupt) {
		t.Error(err)
	}
	for n := range LogHeaderSize {
		if _, err := DecodeLog(make([]byte, n)); !errors.Is(err, ErrLogCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestLogFindsEveryFlippedBit(t *testing.T) {
	cells, images, size := sampleLog(rand.New(rand.NewPCG(17, 18)), 4)
	b := buildLog(t, make([]byte, size), 1, 2, cells, images)
	for bit := range size * 8 {
		b[bit/8] ^= 1 << (bit % 8)
		_, err := DecodeLog(b)
		// A state flipped into another one is for the 8-byte WRITE to exclude; here 1 becomes 3.
		if bit == LogOffState*8+1 {
			if err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, ErrLogCorrupt) {
			t.Errorf("bit %d flipped: %v", bit, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
}

// A coordinator dies while it writes an entry over an older one: some lines have arrived, others not, and
// one is cut. Only the whole old or whole new entry is accepted.
func TestLogCutInHalf(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for range 200 {
		cells, images, oldSize := sampleLog(rng, rng.IntN(8))
		newCells, newImages, newSize := sampleLog(rng, rng.IntN(8))
		slot := make([]byte, max(oldSize, newSize))
		buildLog(t, slot, 1, 1, cells, images)
		b := buildLog(t, make([]byte, newSize), 2, 1, newCells, newImages)
		missing := 0
		for off := 0; off < newSize; off += 64 {
			line := b[off:min(off+64, newSize)]
			switch rng.IntN(4) {
			case 0:
				line = line[:rng.IntN(len(line)/8)*8]
			case 1:
				line = nil
			}
			missing += min(64, newSize-off) - len(line)
			copy(slot[off:], line)
		}
		e, err := DecodeLog(slot)
		switch {
		case err == nil && e.Token == 1:
			checkLog(t, &e, 1, 1, cells, images)
		case err == nil:
			checkLog(t, &e, 2, 1, newCells, newImages)
		case !errors.Is(err, ErrLogCorrupt):
			t.Fatal(err)
		case missing == 0:
			t.Fatalf("a whole entry is refused: %v", err)
		}
	}
}

// Over an older entry of the same cells, of which the images have not been replaced,
// the new header and list are no whole entry: the old images are sealed, but of other
// versions.
func TestLogRefusesImagesOfAnOlderEntry(t *testing.T) {
	const addr = Addr(0x1f40)
	entry := func(v Version, old string) []byte {
		image := make([]byte, CellAlign)
		EncodeCell(image, addr, v, 7, KindRecord, []byte("accounts"), []byte(old))
		return buildLog(t, make([]byte, 256), uint64(v), 1, []LogCell{{addr, v, v + 1}}, []testImage{{0, image}})
	}
	older, newer := entry(5, "0123456789abcdef"), entry(6, "fedcba9876543210")
	const images = LogHeaderSize + LogCellSize
	mixed := append(bytes.Clone(newer[:images]), older[images:]...)
	if _, err := DecodeLog(mixed); !errors.Is(err, ErrLogCorrupt) || !strings.Contains(err.Error(), "has version 5, want 6") {
		t.Errorf("the image of version 5 in the entry of version 6: %v", err)
	}
}

// Entries whose sum holds, but which no builder writes.
func TestLogRefusesNonsenseWithAGoodSum(t *testing.T) {
	image := make([]byte, CellAlign)
	EncodeCell(image, 1, 2, 7, KindRecord, []byte("accounts"), []byte("0123456789abcdef"))
	const list = LogHeaderSize
	const end = list + 2*LogCellSize
	const size = end + CellAlign
	for _, c := range []struct {
		says string
		do   func(b []byte)
	}{
		{"reserved", func(b []byte) { b[40] = 1 }},
		{"reserved", func(b []byte) { b[63] = 1 }},
		{"cells in an entry", func(b []byte) { binary.LittleEndian.PutUint32(b[LogOffCount:], 1<<32-1) }},
		{"has 64 bytes, want 40", func(b []byte) { binary.LittleEndian.PutUint64(b[list+8:], 0) }},
		{"64 bytes behind the last image", func(b []byte) { binary.LittleEndian.PutUint64(b[list+24:], 0) }},
		{"has 65 bytes, 64 are left", func(b []byte) { binary.LittleEndian.PutUint64(b[list+24:], 65) }},
		{"has 4294967295 bytes", func(b []byte) { binary.LittleEndian.PutUint64(b[list+24:], 1<<64-1) }},
		{"was not sealed for it", func(b []byte) { binary.LittleEndian.PutUint64(b[list+24:], 56) }},
		{"was not sealed for it", func(b []byte) { binary.LittleEndian.PutUint64(b[list+24:], 1) }},
		{"was not sealed for it", func(b []byte) { binary.LittleEndian.PutUint64(b[list:], 9) }},
		{"was not sealed for it", func(b []byte) { b[end+50]++ }},
		{"has version 2, want 3", func(b []byte) { binary.LittleEndian.PutUint64(b[list+8:], 3) }},
		{"has version 2+pending, want 2", func(b []byte) { b[end+OffVersion+7] |= 0x80 }},
		{"has a lock", func(b []byte) { b[end] = 1 }},
	} {
		cells := []LogCell{{1, 2, 3}, {4, 0, 6}}
		b := buildLog(t, make([]byte, size), 1, 2, cells, []testImage{{0, image}, {1, make([]byte, HeaderSize)}})
		if len(b) != size {
			t.Fatalf("%d bytes, want %d", len(b), size)
		}
		c.do(b)
		binary.LittleEndian.PutUint64(b[LogOffSum:], logSum(b, end))
		if _, err := DecodeLog(b); !errors.Is(err, ErrLogCorrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want an error that says %q, got %v", c.says, err)
		}
	}
	for _, length := range []uint32{0, 56, 65, size + 8, 1<<32 - 1} {
		b := buildLog(t, make([]byte, size), 1, 2, []LogCell{{1, 2, 3}, {4, 5, 6}}, nil)
		binary.LittleEndian.PutUint32(b[LogOffLength:], length)
		if _, err := DecodeLog(b); !errors.Is(err, ErrLogCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("length is %d", length)) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

func TestLogImagesStopsWhenAsked(t *testing.T) {
	image := make([]byte, HeaderSize)
	b := buildLog(t, make([]byte, 1024), 1, 2, []LogCell{{1, 0, 3}, {2, 0, 3}}, []testImage{{0, image}, {1, image}})
	e, err := DecodeLog(b)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range e.Images {
		n++
		break
	}
	if n != 1 {
		t.Error(n)
	}
}

func TestLogAllocatesNothing(t *testing.T) {
	buf := make([]byte, 4096)
	var l LogBuilder
	noAllocs(t, "LogBuilder", func() {
		var image [128]byte
		l.Begin(buf, 1, 2, 2)
		l.Add(1, 2, 3, nil)
		l.Add(4, 0, 6, image[:HeaderSize])
		if _, err := l.Finish(); err != nil {
			t.Fatal(err)
		}
	})
	var sink uint64
	noAllocs(t, "DecodeLog", func() {
		e, err := DecodeLog(buf)
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.Cells() {
			sink += uint64(e.Cell(i).Addr)
		}
		for i, image := range e.Images {
			sink += uint64(i) + uint64(len(image))
		}
	})
	noAllocs(t, "LogBuilder, too large", func() {
		l.Begin(buf[:70], 1, 2, 1)
		l.Add(1, 2, 3, nil)
		if _, err := l.Finish(); err == nil {
			t.Fatal("no error")
		}
	})
}

func FuzzDecodeLog(f *testing.F) {
	rng := rand.New(rand.NewPCG(21, 22))
	for n := range 4 {
		cells, images, size := sampleLog(rng, n)
		f.Add(buildLog(f, make([]byte, size), 1, 2, cells, images), false)
	}
	f.Add(make([]byte, LogHeaderSize), false)
	f.Add(bytes.Repeat([]byte{8}, 256), true)
	f.Fuzz(func(t *testing.T, b []byte, reseal bool) {
		// A right sum is beyond a fuzzer; with it the structure behind the sum is reached.
		if reseal && len(b) >= LogHeaderSize {
			n := len(b) &^ 7
			cells := min(int(b[LogOffCount]), (n-LogHeaderSize)/LogCellSize)
			binary.LittleEndian.PutUint32(b[LogOffLength:], uint32(n))
			binary.LittleEndian.PutUint32(b[LogOffCount:], uint32(cells))
			binary.LittleEndian.PutUint64(b[LogOffSum:], logSum(b, LogHeaderSize+cells*LogCellSize))
		}
		e, err := DecodeLog(b)
		if err != nil {
			if errors.Is(err, ErrLogEmpty) == errors.Is(err, ErrLogCorrupt) {
				t.Fatalf("neither empty nor corrupt: %v", err)
			}
			return
		}
		var l LogBuilder
		again := make([]byte, e.Size())
		l.Begin(again, e.Token, e.Epoch, e.Cells())
		var cells []LogCell
		var images []testImage
		for i := range e.Cells() {
			cells = append(cells, e.Cell(i))
		}
		for i, image := range e.Images {
			images = append(images, testImage{i, image})
		}
		for i, c := range cells {
			var image []byte
			if len(images) > 0 && images[0].cell == i {
				image, images = images[0].b, images[1:]
			}
			l.Add(c.Addr, c.Old, c.New, image)
			l.Covers(e.Covered(i))
		}
		n, err := l.Finish()
		if err != nil || n != e.Size() {
			t.Fatalf("%d bytes, %v; decoded from %d", n, err, e.Size())
		}
		binary.LittleEndian.PutUint64(again[LogOffState:], uint64(e.State))
		if !bytes.Equal(again, b[:n]) {
			t.Fatalf("built again: %x\nwas: %x", again, b[:n])
		}
	})
}

func BenchmarkLogBuilder(b *testing.B) {
	for _, cells := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("cells=%d", cells), func(b *testing.B) {
			buf := make([]byte, 4096)
			image := make([]byte, 64)
			var l LogBuilder
			for b.Loop() {
				l.Begin(buf, 1, 2, cells)
				for i := range cells {
					l.Add(Addr(i), 1, 2, image)
				}
				if _, err := l.Finish(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeLog(b *testing.B) {
	one, two := make([]byte, 64), make([]byte, 64)
	EncodeCell(one, 1, 2, 7, KindRecord, []byte("accounts"), []byte("0123456789abcdef"))
	EncodeCell(two, 4, 5, 7, KindRecord, []byte("accounts"), []byte("0123456789abcdef"))
	buf := buildLog(b, make([]byte, 4096), 1, 2, []LogCell{{1, 2, 3}, {4, 5, 6}}, []testImage{{0, one}, {1, two}})
	for b.Loop() {
		if _, err := DecodeLog(buf); err != nil {
			b.Fatal(err)
		}
	}
}
