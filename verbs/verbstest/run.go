package verbstest

import (
	"testing"

	"fjord/verbs"
)

// Env is what a provider brings to one test. The suite closes the devices.
type Env struct {
	// A and B are two fresh devices that reach each other and live in the same
	// world.
	A, B verbs.Device
	// Drive runs body as a worker of the devices' world, and returns when body
	// has. Nil: body is called as it is.
	Drive func(body func())
	// Patience is how many nanoseconds of the world's time a wait may take before
	// the provider counts as hung. 0: 20 s.
	Patience int64
	// Effort is the percentage of the usual number of rounds to run. 0: 100.
	Effort int
	// Skip names specifications ("chapter" or "chapter/name") that this provider
	// cannot meet, each with the reason.
	Skip map[string]string
}

// spec is one specification: the name says what holds, run shows it.
type spec struct {
	name string
	run  func(t *T)
}

type chapter struct {
	name  string
	specs []spec
}

func chapters() []chapter {
	return []chapter{
		{"opcodes", opcodes()},
		{"shapes", shapes()},
		{"inline", inlining()},
		{"local protection", localProtection()},
		{"remote protection", remoteProtection()},
		{"receives", receives()},
		{"transitions", transitions()},
		{"states", states()},
		{"silence", silence()},
		{"queues", queues()},
		{"waiting", waiting()},
		{"order", ordering()},
		{"words", wordwise()},
		{"atomics", atomics()},
		{"concurrency", concurrency()},
		{"closing", closing()},
		{"limits", limits()},
		{"windows", windows()},
		{"cost", cost()},
	}
}

// Run runs the suite. open makes a fresh environment for each specification.
func Run(t *testing.T, open func(t *testing.T) Env) {
	all := chapters()
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range c.specs {
				t.Run(s.name, func(t *testing.T) {
					env := open(t)
					for _, k := range []string{c.name, c.name + "/" + s.name} {
						if why, ok := env.Skip[k]; ok {
							closeBoth(env)
							t.Skipf("SKIPPED for provider %s: %s", env.A.Attr().Provider, why)
						}
					}
					runSpec(t, env, s)
				})
			}
		})
	}
	t.Run("skips name existing specifications", func(t *testing.T) {
		env := open(t)
		closeBoth(env)
		known := make(map[string]bool)
		for _, c := range all {
			known[c.name] = true
			for _, s := range c.specs {
				known[c.name+"/"+s.name] = true
			}
		}
		for k := range env.Skip {
			if !known[k] {
				t.Errorf("Env.Skip names %q, which does not exist", k)
			}
		}
	})
}

func closeBoth(env Env) {
	drive(env, func() {
		_ = env.A.Close()
		_ = env.B.Close()
	})
}

func drive(env Env, body func()) {
	if env.Drive != nil {
		env.Drive(body)
		return
	}
	body()
}

func runSpec(tt *testing.T, env Env, s spec) {
	t := &T{T: tt, env: env, rt: env.A.Runtime(), patience: env.Patience, a: env.A, b: env.B}
	if t.patience == 0 {
		t.patience = 20e9
	}
	t.all = t.newGroup()
	drive(env, func() {
		t.guard(func() { s.run(t) })
		// Workers that a failed test left behind see their posts refused, and end.
		t.stop.Store(true)
		for _, d := range []verbs.Device{t.a, t.b} {
			if err := d.Close(); err != nil {
				t.Errorf("Device.Close of %q at the end: %v", d.Attr().Name, err)
			}
		}
		t.guard(t.all.wait)
		if t.Failed() {
			return // a worker may hang with a request on this memory
		}
		for _, m := range t.mems {
			if err := m.Free(); err != nil {
				t.Errorf("Memory.Free: %v", err)
			}
		}
	})
	if t.skipped != "" && !t.Failed() {
		tt.Skip("SKIPPED for provider " + env.A.Attr().Provider + ": " + t.skipped)
	}
}
