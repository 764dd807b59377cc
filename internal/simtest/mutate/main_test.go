package main

import "testing"

// The campaign is measured by what these take out, so they have to follow the engine.
func TestMutationsFitTheSource(t *testing.T) {
	if err := fit("../../..", mutations); err != nil {
		t.Error(err)
	}
}
