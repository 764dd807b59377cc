package bench

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Flags declares and reads command-line flags. Unlike flag.FlagSet it goes on
// after a bad value and reports all of them at once, each with what would be
// right, and it knows every flag's value as JSON.
type Flags struct {
	fs       *flag.FlagSet
	order    []*setting
	problems []string
	checks   []func()
}

// setting is one flag: a flag.Value that never fails but takes notes.
type setting struct {
	f                *Flags
	name, arg, usage string
	set              func(text string) bool // false: text is not right
	get              func() any             // the value as JSON has it
	show             func() string
	right            string // what would be right
	given, isBool    bool
}

func (s *setting) String() string {
	if s == nil || s.show == nil {
		return ""
	}
	return s.show()
}

func (s *setting) IsBoolFlag() bool { return s.isBool }

func (s *setting) Set(text string) error {
	s.given = true
	if !s.set(text) {
		s.f.Bad(s.name, text, s.right)
	}
	return nil
}

func newFlags(name string) *Flags {
	f := &Flags{fs: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.fs.SetOutput(io.Discard)
	return f
}

func (f *Flags) add(s *setting) {
	s.f = f
	f.order = append(f.order, s)
	f.fs.Var(s, s.name, s.usage)
}

// Int declares a flag for a whole number from lo to hi.
func (f *Flags) Int(p *int, name string, value, lo, hi int, usage string) {
	*p = value
	right := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if hi == math.MaxInt {
		right = fmt.Sprintf("a whole number, at least %d", lo)
	}
	f.add(&setting{name: name, arg: "N", usage: usage, right: right,
		set: func(text string) bool {
			v, err := strconv.Atoi(text)
			if err != nil || v < lo || v > hi {
				return false
			}
			*p = v
			return true
		},
		get:  func() any { return *p },
		show: func() string { return strconv.Itoa(*p) },
	})
}

// Uint64 declares a flag for a whole number.
func (f *Flags) Uint64(p *uint64, name string, value uint64, usage string) {
	*p = value
	f.add(&setting{name: name, arg: "N", usage: usage, right: "a whole number from 0 to 18446744073709551615",
		set: func(text string) bool {
			v, err := strconv.ParseUint(text, 10, 64)
			if err == nil {
				*p = v
			}
			return err == nil
		},
		get:  func() any { return *p },
		show: func() string { return strconv.FormatUint(*p, 10) },
	})
}

// Float declares a flag for a number from lo to hi.
func (f *Flags) Float(p *float64, name string, value, lo, hi float64, usage string) {
	*p = value
	right := fmt.Sprintf("a number from %v to %v", lo, hi)
	if hi == math.MaxFloat64 {
		right = fmt.Sprintf("a number, at least %v", lo)
	}
	f.add(&setting{name: name, arg: "X", usage: usage, right: right,
		set: func(text string) bool {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil || !(v >= lo && v <= hi) { // written so that NaN is refused
				return false
			}
			*p = v
			return true
		},
		get:  func() any { return *p },
		show: func() string { return strconv.FormatFloat(*p, 'g', -1, 64) },
	})
}

// Duration declares a flag for a span of time that is not negative.
func (f *Flags) Duration(p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	f.add(&setting{name: name, arg: "TIME", usage: usage,
		right: "a time that is not negative, like 10s, 500ms or 1m30s (a number alone is seconds)",
		set: func(text string) bool {
			v, err := time.ParseDuration(text)
			if err != nil {
				v, err = time.ParseDuration(text + "s")
			}
			if err != nil || v < 0 {
				return false
			}
			*p = v
			return true
		},
		get:  func() any { return p.String() },
		show: func() string { return p.String() },
	})
}

// Bool declares a flag that is on or off.
func (f *Flags) Bool(p *bool, name string, value bool, usage string) {
	*p = value
	f.add(&setting{name: name, usage: usage, isBool: true, right: "true or false",
		set: func(text string) bool {
			v, err := strconv.ParseBool(text)
			if err == nil {
				*p = v
			}
			return err == nil
		},
		get:  func() any { return *p },
		show: func() string { return strconv.FormatBool(*p) },
	})
}

// String declares a flag for a text. arg names it in the help. check, if not nil,
// says what would be right if text is not.
func (f *Flags) String(p *string, name, arg, value, usage string, check func(text string) (right string)) {
	*p = value
	s := &setting{name: name, arg: arg, usage: usage,
		get:  func() any { return *p },
		show: func() string { return *p },
	}
	s.set = func(text string) bool {
		if check != nil {
			if s.right = check(text); s.right != "" {
				return false
			}
		}
		*p = text
		return true
	}
	f.add(s)
}

// Check registers what must hold among the flags once all are read. It reports by
// Bad or Badf, and may fill in values that depend on others.
func (f *Flags) Check(check func()) { f.checks = append(f.checks, check) }

// Given reports whether the flag stood on the command line.
func (f *Flags) Given(name string) bool {
	for _, s := range f.order {
		if s.name == name {
			return s.given
		}
	}
	return false
}

// Bad reports that a flag's value is not right, and what would be.
func (f *Flags) Bad(name, value, right string) {
	f.Badf("--%s %q: right is %s", name, value, right)
}

// Badf reports that flags contradict each other.
func (f *Flags) Badf(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// errHelp is returned by parse when help was asked for.
var errHelp = errors.New("help")

// badArguments are the problems of a command line, one a line.
type badArguments []string

func (b badArguments) Error() string { return strings.Join(b, "\n") }

// parse reads args. Its error is errHelp or badArguments.
func (f *Flags) parse(args []string) error {
	if err := f.fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return errHelp
		}
		// What is left are unknown flags and flags without a value: those end the
		// parsing, so the checks below would judge half a command line.
		text := strings.NewReplacer(": -", ": --", "flag -", "flag --").Replace(err.Error())
		return append(badArguments(f.problems), text+"; --help lists the flags")
	}
	for _, arg := range f.fs.Args() {
		f.Badf("unexpected argument %q: there are only flags; --help lists them", arg)
	}
	if len(f.problems) == 0 {
		for _, check := range f.checks {
			check()
		}
	}
	if len(f.problems) > 0 {
		return badArguments(f.problems)
	}
	return nil
}

// values returns every flag's value.
func (f *Flags) values() map[string]any {
	m := make(map[string]any, len(f.order))
	for _, s := range f.order {
		m[s.name] = s.get()
	}
	return m
}

// help writes the flags with their defaults.
func (f *Flags) help(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s [flags]\n\n", f.fs.Name())
	width := 0
	for _, s := range f.order {
		width = max(width, len(s.name)+1+len(s.arg))
	}
	for _, s := range f.order {
		def := f.fs.Lookup(s.name).DefValue
		if def != "" && !s.isBool {
			def = " (" + def + ")"
		} else {
			def = ""
		}
		fmt.Fprintf(w, "  --%-*s  %s%s\n", width, strings.TrimSpace(s.name+" "+s.arg), s.usage, def)
	}
}
