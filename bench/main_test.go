package bench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fjord/txn"
)

// toy counts up a few counters. Its fields plant faults.
type toy struct {
	t       map[*txn.DB]*txn.Table
	clients []*toyClient

	loadErr   error // fails Load
	failAfter int   // transactions of a client after which it fails for good
	checkErr  error // fails Check
	badCheck  bool  // a check that does not hold
	ran       bool
	warmed    int // calls of Loader.Warm's function
}

const toyKeys = 4

var (
	errOdd  = NewRollback("odd")
	errLost = errors.New("lost my way")
)

func (*toy) Name() string           { return "toy" }
func (*toy) Flags(*Flags)           {}
func (*toy) Types() []string        { return []string{"Count", "Refuse"} }
func (*toy) Rollbacks() []*Rollback { return []*Rollback{errOdd} }
func (*toy) Options(o *txn.Options) { o.AddressCache = 1024 }

func (b *toy) Load(l *Loader) (err error) {
	b.ran = true
	if b.loadErr != nil {
		return b.loadErr
	}
	b.t = map[*txn.DB]*txn.Table{}
	if b.t[l.DB], err = l.DB.CreateTable(l.Ctx, txn.Schema{Name: "t", KeySize: 8, ValueSize: 8, Capacity: 64}); err != nil {
		return err
	}
	for _, db := range l.Others {
		if b.t[db], err = db.Table(l.Ctx, "t"); err != nil {
			return err
		}
	}
	if err := l.Each(toyKeys, 1, func(ctx context.Context, lo, hi uint64) error {
		return l.DB.Update(ctx, func(tx *txn.Tx) error {
			return tx.Insert(b.t[l.DB], toyKey(lo), make([]byte, 8))
		})
	}); err != nil {
		return err
	}
	return l.Warm(toyKeys, 1, func(ctx context.Context, db *txn.DB, lo, hi uint64) error {
		b.warmed++
		return db.View(ctx, func(tx *txn.Tx) error {
			_, err := tx.Get(b.t[db], toyKey(lo))
			return err
		})
	})
}

func toyKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (b *toy) NewClient(w *Worker) Client {
	c := &toyClient{toy: b, w: w}
	b.clients = append(b.clients, c)
	return c
}

func (b *toy) Check(ctx context.Context, db *txn.DB, c *Checks) error {
	if b.checkErr != nil {
		return b.checkErr
	}
	var want, got uint64
	for _, cl := range b.clients {
		want += cl.counted
	}
	for n := range uint64(toyKeys) {
		err := db.View(ctx, func(tx *txn.Tx) error {
			v, err := tx.Get(b.t[db], toyKey(n))
			if err == nil {
				got += binary.LittleEndian.Uint64(v)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	c.Add("counted", got == want && !b.badCheck, "%d, want %d", got, want)
	return nil
}

type toyClient struct {
	toy        *toy
	w          *Worker
	n, counted uint64
}

func (c *toyClient) Next() int {
	c.n++
	if c.n%10 == 0 {
		return 1
	}
	return 0
}

func (c *toyClient) Run() error {
	if after := c.toy.failAfter; after > 0 && c.n > uint64(after) {
		return c.w.View(func(*txn.Tx) error { return errLost })
	}
	if c.n%10 == 0 {
		return c.w.Update(func(*txn.Tx) error { return errOdd })
	}
	key := toyKey(c.w.Rand.Uint64N(toyKeys))
	err := c.w.Update(func(tx *txn.Tx) error {
		v, err := tx.GetForUpdate(c.toy.t[c.w.DB], key)
		if err != nil {
			return err
		}
		return tx.Put(c.toy.t[c.w.DB], key, binary.LittleEndian.AppendUint64(nil, binary.LittleEndian.Uint64(v)+1))
	})
	if err == nil {
		c.counted++
	}
	return err
}

// execute runs Main.
func execute(b Benchmark, args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = Main(b, args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestMainRefusesBadArguments(t *testing.T) {
	dir := t.TempDir()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	file := filepath.Join(dir, "both")
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--provider shm", []string{`--provider "shm"`, "right is mem or sim", "no provider shm yet"}},
		{"--provider infiniband", []string{`--provider "infiniband"`, "right is mem or sim"}},
		{"--provider sim --nic cx9", []string{`--nic "cx9"`, "one of cx5, cx6, cx7"}},
		{"--nic cx6", []string{"--nic with --provider mem", "right is --provider sim"}},
		{"--compute-nodes 2", []string{"--compute-nodes with --provider mem", "right is --provider sim"}},
		{"--threads 2 --provider mem", []string{"--threads with --provider mem", "right is --provider sim"}},
		{"--provider sim --compute-nodes 0", []string{`--compute-nodes "0"`, "from 1 to 256"}},
		{"--provider sim --threads -1", []string{`--threads "-1"`, "from 0 to 4096"}},
		{"--provider sim --coordinators 4097", []string{`--coordinators "4097"`, "from 1 to 4096"}},
		{"--provider sim --metrics :0", []string{"--metrics", "--provider sim", "right is --json"}},
		{"--provider sim --txns 5 --duration 3ms", []string{"--txns 5", "--duration 3ms", "right is one of them"}},
		{"--provider sim --replicas 4 --memory-nodes 3", []string{"--replicas 4", "at most --memory-nodes 3"}},
		{"--directory memcached:11211", []string{`--directory "memcached:11211"`, "inproc"}},
		{"--memory-nodes 0", []string{`--memory-nodes "0"`, "from 1"}},
		{"--replicas 0", []string{`--replicas "0"`, "from 1"}},
		{"--replicas 4 --memory-nodes 3", []string{"--replicas 4", "at most --memory-nodes 3"}},
		{"--replicas 9", []string{`--replicas "9"`, "from 1 to 8"}},
		{"--memory-nodes 257", []string{`--memory-nodes "257"`, "to 256"}},
		{"--coordinators 0", []string{`--coordinators "0"`, "from 1"}},
		{"--coordinators many", []string{`--coordinators "many"`}},
		{"--duration -1s", []string{`--duration "-1s"`, "not negative"}},
		{"--duration 0", []string{"--duration 0s", "more than 0", "--txns"}},
		{"--warmup -1s", []string{`--warmup "-1s"`, "not negative"}},
		{"--txns -5", []string{`--txns "-5"`, "at least 0"}},
		{"--txns 5 --duration 3s", []string{"--txns 5", "--duration 3s", "right is one of them"}},
		{"--max-rate -1", []string{`--max-rate "-1"`, "at least 0"}},
		{"--lock hope", []string{`--lock "hope"`, "one of cas, backoff"}},
		{"--seed x", []string{`--seed "x"`}},
		{"--json " + dir + "/no/file", []string{"--json", "no such file", "right is a file that can be written"}},
		{"--history " + dir + "/no/file", []string{"--history", "no such file", "right is a file that can be written"}},
		{"--json " + dir, []string{"--json", "is a directory"}},
		{"--json " + file + " --history " + dir + "/./both", []string{"--json", "--history", "are one file"}},
		{"--metrics nowhere", []string{`--metrics "nowhere"`, "right is a free address"}},
		{"--metrics " + busy.Addr().String(), []string{"--metrics", "in use"}},
		{"now", []string{`"now"`}},
		{"--frobnicate", []string{"--frobnicate", "--help"}},
	} {
		b := &toy{}
		status, stdout, stderr := execute(b, strings.Fields(c.args)...)
		if status != ExitUsage || b.ran || stdout != "" {
			t.Errorf("%s: status %d, ran: %v, stdout %q, want status 2 and nothing run or printed there", c.args, status, b.ran, stdout)
		}
		for _, w := range c.want {
			if !strings.Contains(stderr, w) {
				t.Errorf("%s: message %q lacks %q", c.args, stderr, w)
			}
		}
	}
}

// Files of an earlier run survive a command line that is refused.
func TestMainKeepsFilesWhenItRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := execute(&toy{}, "--json", file, "--metrics", "nowhere"); status != ExitUsage {
		t.Fatalf("status %d", status)
	}
	if got, _ := os.ReadFile(file); string(got) != "precious" {
		t.Errorf("the file is %q now", got)
	}
}

func TestConfigFillsIn(t *testing.T) {
	for _, c := range []struct {
		args string
		want map[string]any
	}{
		{"", map[string]any{"memory-nodes": 3, "replicas": 3, "coordinators": 8, "duration": "10s", "warmup": "2s", "txns": 0, "provider": "mem"}},
		{"--memory-nodes 2", map[string]any{"memory-nodes": 2, "replicas": 2}},
		{"--replicas 5", map[string]any{"memory-nodes": 5, "replicas": 5}},
		{"--replicas 1", map[string]any{"memory-nodes": 3, "replicas": 1}},
		{"--txns 100", map[string]any{"txns": 100, "duration": "0s", "warmup": "0s"}},
		{"--txns 100 --warmup 1s", map[string]any{"txns": 100, "duration": "0s", "warmup": "1s"}},
		{"--txns 0 --duration 3s", map[string]any{"txns": 0, "duration": "3s"}},
		{"--directory inproc", map[string]any{"directory": "inproc"}},
		{"--provider mem", map[string]any{"nic": "", "compute-nodes": 1, "threads": 0}},
		{"--provider sim", map[string]any{"nic": "cx6", "compute-nodes": 4, "threads": 0, "duration": "20ms", "warmup": "5ms"}},
		{"--provider sim --coordinators 2", map[string]any{"compute-nodes": 2}},
		{"--provider sim --coordinators 2 --compute-nodes 3", map[string]any{"compute-nodes": 3}},
		{"--provider sim --duration 3ms --nic cx7", map[string]any{"nic": "cx7", "duration": "3ms", "warmup": "5ms"}},
		{"--provider sim --txns 10", map[string]any{"duration": "0s", "warmup": "0s"}},
	} {
		config, _, err := parse(&toy{}, strings.Fields(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		for name, want := range c.want {
			if got := config.Values[name]; got != want {
				t.Errorf("%s: %s is %v, want %v", c.args, name, got, want)
			}
		}
	}
}

func TestMainHelp(t *testing.T) {
	status, stdout, stderr := execute(&toy{}, "--help")
	if status != ExitOK || stderr != "" || !strings.Contains(stdout, "--memory-nodes N") {
		t.Errorf("status %d\n%s\n%s", status, stdout, stderr)
	}
}

func TestRunThatPasses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	status, stdout, stderr := execute(&toy{}, "--txns", "1001", "--warmup", "20ms", "--coordinators", "3", "--json", file)
	if status != ExitOK || stderr != "" || !strings.Contains(stdout, "counted") {
		t.Fatalf("status %d\n%s\n%s", status, stdout, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if ended := r.Committed + r.Aborted["odd"]; ended != 1001 {
		t.Errorf("%d transactions ended, want 1001", ended)
	}
	if !r.Checks["counted"] || !r.Checks["counts_match_engine"] {
		t.Errorf("checks are %v", r.Checks)
	}
}

func TestRunQuietly(t *testing.T) {
	if status, stdout, stderr := execute(&toy{}, "--txns", "10", "--quiet"); status != ExitOK || stdout != "" || stderr != "" {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	status, stdout, stderr := execute(&toy{badCheck: true}, "--txns", "10", "--quiet")
	if status != ExitFailed || stdout != "" || !strings.Contains(stderr, "counted") {
		t.Errorf("a failed check: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

func TestRunThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		toy    *toy
		args   []string
		want   string
		report bool
	}{
		"load":        {&toy{loadErr: errLost}, nil, "loading: lost my way", false},
		"transaction": {&toy{failAfter: 50}, nil, "lost my way", true},
		"checking":    {&toy{checkErr: errLost}, nil, "checking: lost my way", true},
		"check":       {&toy{badCheck: true}, nil, "check failed: counted", true},
		"history":     {&toy{}, []string{"--history", "/dev/full"}, "no space left", true},
		"json":        {&toy{}, []string{"--json", "/dev/full"}, "no space left", true},
	} {
		status, stdout, stderr := execute(c.toy, append(c.args, "--txns", "1000")...)
		if status != ExitFailed || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, stderr %q, want %q", name, status, stderr, c.want)
		}
		if reported := strings.Contains(stdout, "\nBenchmarkToy/"); reported != c.report {
			t.Errorf("%s: reported: %v, want %v", name, reported, c.report)
		}
	}
}

// An interrupted run is checked and reported; one that was interrupted before
// anything was loaded has nothing to report.
func TestRunInterrupted(t *testing.T) {
	config, _, err := parse(&toy{}, []string{"--duration", "1h", "--warmup", "0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b := &interrupting{toy: &toy{}, cancel: cancel}
	res, err := Run(ctx, b, config, Outputs{})
	if err != nil {
		t.Fatal(err)
	}
	if !res.Interrupted || res.Error != "interrupted" || !res.Checks["counted"] || res.Failure() == nil {
		t.Errorf("got %+v", res)
	}

	res, err = Run(ctx, &toy{}, config, Outputs{}) // ended already
	if res != nil || !errors.Is(err, errInterrupted) {
		t.Errorf("interrupted before the load: %v, %v", res, err)
	}
}

// interrupting cancels the run after some transactions.
type interrupting struct {
	*toy
	cancel context.CancelFunc
}

func (b *interrupting) NewClient(w *Worker) Client {
	return &interruptingClient{toyClient: b.toy.NewClient(w).(*toyClient), cancel: b.cancel}
}

type interruptingClient struct {
	*toyClient
	cancel context.CancelFunc
}

func (c *interruptingClient) Next() int {
	if c.n == 1000 {
		c.cancel()
	}
	return c.toyClient.Next()
}

// A paced run takes its time.
func TestRunPaced(t *testing.T) {
	config, _, err := parse(&toy{}, []string{"--txns", "100", "--max-rate", "500", "--coordinators", "4"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := Run(t.Context(), &toy{}, config, Outputs{})
	if err != nil || res.Failure() != nil {
		t.Fatal(err, res.Failure())
	}
	// The last of 100 transactions, 2 ms apart, is due after 198 ms.
	if res.Seconds < 0.198 || res.Seconds > 0.198+2 {
		t.Errorf("took %v s", res.Seconds)
	}
}
