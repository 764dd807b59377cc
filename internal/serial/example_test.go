package serial_test

import (
	"fmt"
	"strings"

	"fjord/internal/serial"
)

func Example() {
	h, err := serial.ReadJSONL(strings.NewReader(`{"format":"fjord-history/1"}
{"id":17,"session":3,"type":"Balance","begin_ns":2350,"end_ns":4000,"outcome":"commit","reads":[{"t":"accounts","k":"0007","v":5}]}
{"id":12,"session":1,"type":"Deposit","begin_ns":1000,"end_ns":2000,"outcome":"commit","writes":[{"t":"accounts","k":"0007","prev":5,"v":6}]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	res := serial.Check(h, serial.Options{})
	for i := range res.Violations {
		fmt.Print(res.Violations[i].Explain())
	}
	// Output:
	// real-time violation: stale read, a cycle of 2 transactions
	//   T1 is 17 (Balance, session 3, 1.35µs to 3µs, outcome commit)
	//   T2 is 12 (Deposit, session 1, 0s to 1µs, outcome commit)
	//   - T1 read accounts/0007 at version 5, which T2 replaced by version 6 (rw)
	//   - T2 ended 350ns before T1 began (real time)
}
