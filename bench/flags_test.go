package bench

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func testFlags() (f *Flags, v *struct {
	n    int
	u    uint64
	x    float64
	d    time.Duration
	b    bool
	text string
}) {
	f = newFlags("test")
	v = new(struct {
		n    int
		u    uint64
		x    float64
		d    time.Duration
		b    bool
		text string
	})
	f.Int(&v.n, "n", 3, 1, 9, "a number")
	f.Uint64(&v.u, "u", 4, "an id")
	f.Float(&v.x, "x", 0.5, 0, 1, "a share")
	f.Duration(&v.d, "d", time.Second, "a time")
	f.Bool(&v.b, "b", false, "a switch")
	f.String(&v.text, "s", "NAME", "abc", "a name", func(s string) string {
		if s == "wrong" {
			return "anything else"
		}
		return ""
	})
	return f, v
}

func TestFlagsRead(t *testing.T) {
	f, v := testFlags()
	if err := f.parse([]string{"-n", "7", "--u=18446744073709551615", "--x", "0.25", "-d=1m", "--b", "--s", "x y"}); err != nil {
		t.Fatal(err)
	}
	if v.n != 7 || v.u != 1<<64-1 || v.x != 0.25 || v.d != time.Minute || !v.b || v.text != "x y" {
		t.Errorf("got %+v", *v)
	}
	want := map[string]any{"n": 7, "u": uint64(1<<64 - 1), "x": 0.25, "d": "1m0s", "b": true, "s": "x y"}
	if got := f.values(); !reflect.DeepEqual(got, want) {
		t.Errorf("values are %v, want %v", got, want)
	}
	if !f.Given("n") || !f.Given("b") {
		t.Error("a flag that was given is not Given")
	}
}

func TestFlagsDefaults(t *testing.T) {
	f, v := testFlags()
	if err := f.parse(nil); err != nil {
		t.Fatal(err)
	}
	if v.n != 3 || v.u != 4 || v.x != 0.5 || v.d != time.Second || v.b || v.text != "abc" {
		t.Errorf("got %+v", *v)
	}
	if f.Given("n") {
		t.Error("a default is Given")
	}
}

func TestFlagsPlainNumberIsSeconds(t *testing.T) {
	f, v := testFlags()
	if err := f.parse([]string{"--d", "1.5"}); err != nil || v.d != 1500*time.Millisecond {
		t.Errorf("got %v, %v", v.d, err)
	}
}

func TestFlagsBad(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string // each must be in the message
	}{
		{"--n 0", []string{`--n "0"`, "from 1 to 9"}},
		{"--n 10", []string{`--n "10"`, "from 1 to 9"}},
		{"--n 1.5", []string{`--n "1.5"`, "whole number"}},
		{"--n 99999999999999999999", []string{`--n "9999`, "whole number"}},
		{"--u -1", []string{`--u "-1"`, "whole number"}},
		{"--x 1.01", []string{`--x "1.01"`, "from 0 to 1"}},
		{"--x NaN", []string{`--x "NaN"`, "from 0 to 1"}},
		{"--x +Inf", []string{`--x "+Inf"`}},
		{"--d -1s", []string{`--d "-1s"`, "not negative"}},
		{"--d soon", []string{`--d "soon"`, "like 10s"}},
		{"--b=maybe", []string{`--b "maybe"`, "true or false"}},
		{"--s wrong", []string{`--s "wrong"`, "anything else"}},
		{"--n 0 --x 2 --d soon", []string{"--n", "--x", "--d"}}, // all at once
		{"--nn 1", []string{"--nn", "--help"}},
		{"--n", []string{"needs an argument", "--n"}},
		{"--n 2 extra", []string{`"extra"`, "only flags"}},
	} {
		f, _ := testFlags()
		err := f.parse(strings.Fields(c.args))
		var bad badArguments
		if !errors.As(err, &bad) {
			t.Errorf("%s: error is %v", c.args, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", c.args, err, w)
			}
		}
	}
}

func TestFlagsHelp(t *testing.T) {
	f, _ := testFlags()
	if err := f.parse([]string{"--help"}); !errors.Is(err, errHelp) {
		t.Fatal(err)
	}
	var b strings.Builder
	f.help(&b)
	for _, w := range []string{"--n N", "a number (3)", "--s NAME", "a name (abc)", "--d TIME", "a time (1s)", "--b  "} {
		if !strings.Contains(b.String(), w) {
			t.Errorf("help lacks %q:\n%s", w, b.String())
		}
	}
}
