// Package verbstest is the conformance suite that every provider of package
// verbs passes. It states in runnable form what verbs promises: what each
// operation does, each error that a caller can bring about and the status it
// has, the order in which things are seen, what a queue holds, and what may be
// closed while it is in use.
//
// A provider runs it from a test of its own:
//
//	func TestConformance(t *testing.T) {
//		verbstest.Run(t, func(t *testing.T) verbstest.Env {
//			f := mem.NewFabric(nil)
//			return verbstest.Env{A: f.NewDevice("a"), B: f.NewDevice("b")}
//		})
//	}
//
// A provider need not be synchronous, nor live in real time: the suite reads no
// clock, starts no goroutine and blocks on nothing but what the devices' Runtime
// gives it. Where time is virtual, Env.Drive runs the body of each test as a
// worker of that world.
//
// What a provider lacks according to its DeviceAttr is skipped, and the skip
// says why. Differences that no capability tells of go into Env.Skip, with a
// reason.
package verbstest
