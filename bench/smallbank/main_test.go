package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fjord/bench"
	"fjord/internal/serial"
	"fjord/txn"
)

// asProgram makes the test binary be the program.
const asProgram = "FJORD_TEST_AS_SMALLBANK"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program returns the program as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// run runs the program in this process.
func run(args ...string) (status int, stdout, stderr string) {
	var out, errs strings.Builder
	status = bench.Main(&bank{}, args, &out, &errs)
	return status, out.String(), errs.String()
}

// short is a command line for a run that takes little time.
func short(more ...string) []string {
	return append([]string{"--accounts", "2000", "--hot-accounts", "100", "--coordinators", "4"}, more...)
}

func TestBadArguments(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--accounts 1", []string{`--accounts "1"`, "from 2"}},
		{"--accounts many", []string{`--accounts "many"`, "whole number"}},
		{"--hot-accounts -1", []string{`--hot-accounts "-1"`, "from 0"}},
		{"--accounts 10 --hot-accounts 11", []string{"--hot-accounts 11", "at most --accounts 10"}},
		{"--hot-percent 101", []string{`--hot-percent "101"`, "from 0 to 100"}},
		{"--hot-percent -1", []string{`--hot-percent "-1"`, "from 0 to 100"}},
		{"--hot-accounts 0 --hot-percent 50", []string{"--hot-percent 50", "--hot-accounts 0", "right is"}},
		{"--only Theft", []string{`--only "Theft"`, "one of Amalgamate, Balance"}},
		{"--replicas 3 --memory-nodes 2", []string{"--replicas 3", "--memory-nodes 2"}},
	} {
		status, stdout, stderr := run(strings.Fields(c.args)...)
		if status != bench.ExitUsage || stdout != "" {
			t.Errorf("%s: status %d, stdout %q", c.args, status, stdout)
		}
		for _, w := range c.want {
			if !strings.Contains(stderr, w) {
				t.Errorf("%s: message %q lacks %q", c.args, stderr, w)
			}
		}
	}
}

// Few accounts are all hot by default, instead of a contradiction.
func TestFewAccountsAreAllHot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	if status, _, stderr := run("--accounts", "8", "--txns", "100", "--json", file); status != bench.ExitOK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if got := readReport(t, file)["config"].(map[string]any)["hot-accounts"]; got != 8.0 {
		t.Errorf("hot-accounts is %v, want 8", got)
	}
}

func readReport(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The JSON report has exactly the fields of the contract, all figures are numbers,
// and they add up.
func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	status, stdout, stderr := run(short("--duration", "400ms", "--warmup", "100ms", "--seed", "7", "--json", file)...)
	if status != bench.ExitOK {
		t.Fatalf("status %d\n%s\n%s", status, stdout, stderr)
	}
	r := readReport(t, file)

	config := map[string]any{"provider": "mem", "nic": "", "compute-nodes": 1.0, "threads": 0.0, "memory-nodes": 3.0, "replicas": 3.0, "coordinators": 4.0, "duration": "400ms", "warmup": "100ms", "txns": 0.0,
		"max-rate": 0.0, "lock": "cas", "seed": 7.0, "directory": "", "json": file, "history": "", "metrics": "", "quiet": false,
		"accounts": 2000.0, "hot-accounts": 100.0, "hot-percent": 90.0, "only": ""}
	if !reflect.DeepEqual(r["config"], config) {
		t.Errorf("config is %v, want %v", r["config"], config)
	}
	if r["benchmark"] != "smallbank" || r["seed"] != 7.0 {
		t.Errorf("benchmark %v, seed %v", r["benchmark"], r["seed"])
	}
	if b := r["build"].(map[string]any); b["commit"] == "" || !strings.HasPrefix(b["go"].(string), "go") {
		t.Errorf("build is %v", b)
	}
	if r["host"].(string) == "" {
		t.Error("no host")
	}
	seconds := r["seconds"].(float64)
	if seconds < 0.4 || seconds > 4 {
		t.Errorf("seconds is %v", seconds)
	}

	all := figures(t, "all", r, seconds)
	types := r["transactions"].(map[string]any)
	var sum [3]float64
	sumAborted := map[string]float64{}
	for _, name := range kindNames {
		entry, ok := types[name].(map[string]any)
		if !ok {
			t.Fatalf("no type %s in %v", name, types)
		}
		f := figures(t, name, entry, seconds)
		if f.committed == 0 {
			t.Errorf("%s never committed", name)
		}
		sum[0], sum[1], sum[2] = sum[0]+f.attempted, sum[1]+f.committed, max(sum[2], f.max)
		for reason, n := range f.aborted {
			sumAborted[reason] += n
		}
	}
	if len(types) != kinds || sum != [3]float64{all.attempted, all.committed, all.max} || !reflect.DeepEqual(sumAborted, all.aborted) {
		t.Errorf("types %v do not sum up to %+v", types, all)
	}
	for _, reason := range []string{"locked", "version", "pending", "insert", "unknown", "cancelled", "error", "insufficient_funds"} {
		if _, ok := all.aborted[reason]; !ok {
			t.Errorf("no reason %s in %v", reason, all.aborted)
		}
	}

	verbs := r["verbs"].(map[string]any)
	for _, name := range []string{"read", "write", "cas", "faa", "doorbells", "round_trips", "bytes_out", "bytes_in"} {
		n, ok := verbs[name].(float64)
		if !ok || n == 0 && name != "faa" {
			t.Errorf("verbs.%s is %v", name, verbs[name])
		}
	}
	if per := verbs["round_trips"].(float64) / all.committed; per < 1 || per > 10 {
		t.Errorf("%v round trips per committed transaction", per)
	}
	checks := r["checks"].(map[string]any)
	for _, name := range []string{"money_conserved", "updates_counted", "counts_match_engine", "no_locks", "no_pending", "replicas_equal", "sums_valid", "catalog_sound"} {
		if checks[name] != true {
			t.Errorf("check %s is %v", name, checks[name])
		}
	}

	lines := strings.Split(strings.TrimRight(stdout, "\n"), "\n")
	last := lines[len(lines)-1]
	if !regexp.MustCompile(`^BenchmarkSmallbank/provider=mem/replicas=3/coordinators=4-\d+\t\d+\t[\d.]+ ns/op\t[\d.]+ tps\t`).MatchString(last) {
		t.Errorf("the last line is %q", last)
	}
}

type someFigures struct {
	attempted, committed, max float64
	aborted                   map[string]float64
}

// figures checks what holds of all and of each type.
func figures(t *testing.T, name string, r map[string]any, seconds float64) someFigures {
	t.Helper()
	f := someFigures{attempted: r["attempted"].(float64), committed: r["committed"].(float64), aborted: map[string]float64{}}
	sum := f.committed
	for reason, n := range r["aborted"].(map[string]any) {
		f.aborted[reason] = n.(float64)
		sum += n.(float64)
	}
	if sum != f.attempted {
		t.Errorf("%s: attempted is %v, but committed and aborted are %v", name, f.attempted, sum)
	}
	if tps := r["tps"].(float64); math.Abs(tps-f.committed/seconds) > 1e-6*tps {
		t.Errorf("%s: tps is %v, want %v", name, tps, f.committed/seconds)
	}
	l := r["latency_us"].(map[string]any)
	at := func(key string) float64 { return l[key].(float64) }
	if !(0 < at("p50") && at("p50") <= at("p90") && at("p90") <= at("p99") && at("p99") <= at("p999") && at("p999") <= at("max") && 0 < at("mean") && at("mean") <= at("max")) {
		t.Errorf("%s: latencies are %v", name, l)
	}
	f.max = at("max")
	return f
}

// A history of few accounts and many coordinators, where most transactions meet, is
// complete and strictly serializable.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	file, report := filepath.Join(dir, "history.jsonl"), filepath.Join(dir, "report.json")
	status, stdout, stderr := run("--accounts", "8", "--coordinators", "16", "--txns", "8000", "--history", file, "--json", report)
	if status != bench.ExitOK {
		t.Fatalf("status %d\n%s\n%s", status, stdout, stderr)
	}
	r := readReport(t, report)
	if r["checks"].(map[string]any)["serializable"] != true {
		t.Errorf("checks are %v", r["checks"])
	}
	checkLines(t, file)

	h := readHistory(t, file)
	if h.Header["benchmark"] != "smallbank" || h.Header["load"] == "" {
		t.Errorf("header is %v", h.Header)
	}
	v := serial.Check(h, serial.Options{})
	if !v.OK || v.Undecided {
		t.Error(v.String())
	}
	if float64(v.Attempts) != r["attempted"].(float64) || float64(v.Committed) != r["committed"].(float64) {
		t.Errorf("%d attempts, %d committed in the history; the report has %v, %v", v.Attempts, v.Committed, r["attempted"], r["committed"])
	}
	if v.Keys != 16 || v.Aborted == 0 {
		t.Errorf("%s: too little happened to say anything", v.String())
	}
	// Every committed attempt is of a known type and did what that type does.
	writes := map[string]int{"Amalgamate": 3, "Balance": 0, "DepositChecking": 1, "SendPayment": 2, "TransactSavings": 1, "WriteCheck": 1}
	reads := map[string]int{"Amalgamate": 3, "Balance": 2, "DepositChecking": 1, "SendPayment": 2, "TransactSavings": 1, "WriteCheck": 2}
	for _, a := range h.Attempts {
		if a.Outcome != serial.Commit {
			continue
		}
		if len(a.Writes) != writes[a.Type] || len(a.Reads) != reads[a.Type] {
			t.Fatalf("%s reads %d and writes %d keys", a.Type, len(a.Reads), len(a.Writes))
		}
	}
}

func readHistory(t *testing.T, file string) *serial.History {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	h, err := serial.ReadJSONL(f)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// checkLines checks the fields of every line as an outside reader sees them.
func checkLines(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	sc := bufio.NewScanner(f)
	for n := 0; sc.Scan(); n++ {
		var line map[string]any
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		if n == 0 {
			continue
		}
		_, isID := line["id"].(string)
		_, isSession := line["session"].(float64)
		_, isType := line["type"].(string)
		reason, isReason := line["reason"].(string)
		reads, isReads := line["reads"].([]any)
		writes, isWrites := line["writes"].([]any)
		if !isID || !isSession || !isType || !isReason || !isReads || !isWrites || line["begin_ns"].(float64) > line["end_ns"].(float64) {
			t.Fatalf("line %d: %s", n+1, sc.Bytes())
		}
		switch line["outcome"] {
		case "commit":
			if len(reads) == 0 || reason != "" {
				t.Fatalf("line %d: %s", n+1, sc.Bytes())
			}
		case "abort":
			if reason == "" {
				t.Fatalf("line %d: no reason: %s", n+1, sc.Bytes())
			}
		default:
			t.Fatalf("line %d: outcome %v", n+1, line["outcome"])
		}
		for _, w := range writes {
			w := w.(map[string]any)
			if k := w["k"].(string); len(k) != 2*keySize || line["outcome"] == "commit" && w["v"].(float64) <= w["prev"].(float64) || w["del"] != false {
				t.Fatalf("line %d: write %v", n+1, w)
			}
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

// thief is SmallBank with something wrong after the run.
type thief struct {
	*bank
	steal func(cents int64, updates uint64) (int64, uint64)
}

func (b thief) Check(ctx context.Context, db *txn.DB, c *bench.Checks) error {
	key := make([]byte, keySize)
	putKey(key, 5)
	err := db.Update(ctx, func(tx *txn.Tx) error {
		v, err := tx.GetForUpdate(b.tables[db].checking, key)
		if err != nil {
			return err
		}
		r, err := rowOf(v)
		if err != nil {
			return err
		}
		nv := make([]byte, rowSize)
		cents, updates := b.steal(r.cents, r.updates)
		row{cents, updates}.put(nv)
		return tx.Put(b.tables[db].checking, key, nv)
	})
	if err != nil {
		return err
	}
	return b.bank.Check(ctx, db, c)
}

// One cent gone, and an update lost that balanced out, are each found.
func TestChecksFindLoss(t *testing.T) {
	for _, c := range []struct {
		steal         func(int64, uint64) (int64, uint64)
		money, counts bool
	}{
		{func(c int64, u uint64) (int64, uint64) { return c, u }, true, true},
		{func(c int64, u uint64) (int64, uint64) { return c - 1, u }, false, true},
		{func(c int64, u uint64) (int64, uint64) { return c, u - 1 }, true, false},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		var out, errs strings.Builder
		status := bench.Main(thief{&bank{}, c.steal}, []string{"--accounts", "10", "--txns", "500", "--json", file}, &out, &errs)
		checks := readReport(t, file)["checks"].(map[string]any)
		if checks["money_conserved"] != c.money || checks["updates_counted"] != c.counts {
			t.Errorf("checks are %v, want %v, %v", checks, c.money, c.counts)
		}
		want := bench.ExitOK
		if !c.money || !c.counts {
			want = bench.ExitFailed
		}
		if status != want || (status == bench.ExitFailed) != strings.Contains(errs.String(), "check failed: ") {
			t.Errorf("status %d, want %d: %s", status, want, errs.String())
		}
	}
}

// doubtful is SmallBank with a transaction of unknown outcome that nobody can
// resolve.
type doubtful struct{ *bank }

func (b doubtful) Check(ctx context.Context, db *txn.DB, c *bench.Checks) error {
	b.clients[0].unknown = append(b.clients[0].unknown, unknown{id: 1<<63 + 1})
	return b.bank.Check(ctx, db, c)
}

// What nobody can vouch for is not passed.
func TestUnresolvedOutcomeFailsTheCheck(t *testing.T) {
	var out, errs strings.Builder
	status := bench.Main(doubtful{&bank{}}, []string{"--accounts", "10", "--txns", "100"}, &out, &errs)
	if status != bench.ExitFailed || !strings.Contains(errs.String(), "money_conserved") || !strings.Contains(errs.String(), "unresolved") {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

// An interrupted run is checked and reported, and fails.
func TestInterrupt(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		dir := t.TempDir()
		history, report := filepath.Join(dir, "history"), filepath.Join(dir, "report")
		cmd := program(t, short("--duration", "1h", "--history", history, "--json", report)...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if info, err := os.Stat(history); err == nil && info.Size() > 10_000 {
				break // it is running transactions
			}
			if time.Now().After(deadline) {
				_ = cmd.Process.Kill()
				t.Fatalf("it never began: %v: %s", <-ended, &out)
			}
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			t.Fatalf("%v did not end it", sig)
		}
		if status := cmd.ProcessState.ExitCode(); status != bench.ExitFailed || !strings.Contains(out.String(), "interrupted") {
			t.Errorf("%v: status %d\n%s", sig, status, &out)
		}
		r := readReport(t, report)
		checks := r["checks"].(map[string]any)
		if r["interrupted"] != true || checks["money_conserved"] != true || checks["no_locks"] != true {
			t.Errorf("%v: report says interrupted: %v, checks %v", sig, r["interrupted"], checks)
		}
	}
}

// The program itself, as a process: exit statuses reach the shell.
func TestProgram(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{short("--txns", "2000"), bench.ExitOK},
		{[]string{"--accounts", "0"}, bench.ExitUsage},
		{[]string{"--help"}, bench.ExitOK},
	} {
		cmd := program(t, c.args...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%v: status %d, want %d\n%s", c.args, got, c.want, out)
		}
	}
}

// Metrics can be scraped while transactions run, and the engine's are among them.
func TestMetrics(t *testing.T) {
	pr, pw := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- bench.Main(&bank{}, short("--duration", "600ms", "--warmup", "0", "--metrics", "127.0.0.1:0"), io.Discard, pw)
		_ = pw.Close()
	}()
	line, err := bufio.NewReader(pr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, pr) }()
	url := strings.TrimSpace(strings.TrimPrefix(line, "metrics: "))
	found := false
	for deadline := time.Now().Add(5 * time.Second); !found && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url)
		if err != nil {
			break // the run is over
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		found = strings.Contains(string(body), "\nfjord_") && strings.Contains(string(body), "\ngo_goroutines")
	}
	if !found {
		t.Errorf("%s never showed the engine's metrics", url)
	}
	if status := <-done; status != bench.ExitOK {
		t.Errorf("status %d", status)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("metrics are served after the run")
	}
}

// The transactions of a worker depend on seed and index alone.
func TestSeedDecides(t *testing.T) {
	draw := func(seed string) string {
		k := &capture{bank: &bank{}}
		var out, errs strings.Builder
		if status := bench.Main(k, short("--txns", "400", "--seed", seed), &out, &errs); status != bench.ExitOK {
			t.Fatalf("status %d: %s", status, errs.String())
		}
		return fmt.Sprint(k.drawn)
	}
	a, b, c := draw("1"), draw("1"), draw("2")
	if a != b {
		t.Error("one seed, two runs, different transactions")
	}
	if a == c {
		t.Error("two seeds, the same transactions")
	}
}

// capture is SmallBank that notes what worker 1 draws.
type capture struct {
	*bank
	drawn []string
}

func (k *capture) NewClient(w *bench.Worker) bench.Client {
	c := k.bank.NewClient(w)
	if w.Index != 1 {
		return c
	}
	return &capturing{client: c.(*client), to: k}
}

type capturing struct {
	*client
	to *capture
}

func (c *capturing) Next() int {
	n := c.client.Next()
	c.to.drawn = append(c.to.drawn, fmt.Sprintf("%d %x %x %d", n, c.keyA, c.keyB, c.amount))
	return n
}

// SmallBank on simulated hardware: every check holds, the history too, and its
// times are virtual.
func TestSimulated(t *testing.T) {
	dir := t.TempDir()
	report, history := filepath.Join(dir, "report"), filepath.Join(dir, "history")
	status, stdout, stderr := run("--provider", "sim", "--accounts", "100", "--coordinators", "32", "--threads", "2", "--txns", "4000",
		"--json", report, "--history", history)
	if status != bench.ExitOK {
		t.Fatalf("status %d\n%s\n%s", status, stdout, stderr)
	}
	r := readReport(t, report)
	checks := r["checks"].(map[string]any)
	if len(checks) != 9 || checks["serializable"] != true {
		t.Errorf("checks are %v", checks)
	}
	checkLines(t, history)
	h := readHistory(t, history)
	if h.Header["clock"] != "virtual nanoseconds" {
		t.Errorf("the clock is %v", h.Header["clock"])
	}
	nodes := map[uint64]bool{}
	for _, a := range h.Attempts {
		session, err := strconv.ParseUint(a.Session, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		nodes[session>>16] = true
	}
	if len(nodes) != 4 {
		t.Errorf("attempts of %d databases, want one on each of 4 compute nodes", len(nodes))
	}
}

// Where all locks lie on one memory node, its atomic unit bounds what there can be,
// and the report says so.
func TestSimulatedBottleneck(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report")
	status, _, stderr := run("--provider", "sim", "--accounts", "5000", "--hot-accounts", "0", "--hot-percent", "0", "--coordinators", "128",
		"--memory-nodes", "1", "--replicas", "1", "--duration", "1ms", "--warmup", "200us", "--only", "DepositChecking", "--json", report)
	if status != bench.ExitOK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	r := readReport(t, report)
	busiest := r["simulation"].(map[string]any)["busiest"].(map[string]any)
	if taken := busiest["taken"].(float64); busiest["name"] != "memory-0 atomic unit" || taken < 0.95 || taken > 1.01 {
		t.Errorf("busiest is %v", busiest)
	}
	// cx6 serves an atomic in 140 ns, and a deposit takes one.
	if tps := r["tps"].(float64); tps < 6.2e6 || tps > 1e9/140 {
		t.Errorf("%.0f tps", tps)
	}
}
