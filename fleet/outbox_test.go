// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// What was not heard for long is said again, in its order; what was heard is not.
func TestOutbox(t *testing.T) {
	var o Outbox[string]
	said := ""
	say := func(index uint64, what string) error { said += fmt.Sprint(index, what, " "); return nil }
	expect := func(want string) {
		t.Helper()
		if said != want {
			t.Errorf("said %q, want %q", said, want)
		}
		said = ""
	}
	for _, s := range []string{"a", "b", "c"} {
		if err := o.Say(s, say); err != nil {
			t.Fatal(err)
		}
	}
	expect("1a 2b 3c ")
	o.Again(say)
	expect("") // it may be on its way
	o.Heard(1)
	o.kept[0].said = time.Now().Add(-again)
	o.Again(say)
	expect("2b 3c ")
	o.Again(say)
	expect("")
	o.Heard(1) // an old word
	o.Heard(9)
	if o.kept != nil {
		t.Errorf("%d are kept", len(o.kept))
	}
	gone := errors.New("gone")
	if err := o.Say("d", func(uint64, string) error { return gone }); err != gone {
		t.Error(err)
	}
	o.kept[0].said = time.Time{}
	o.Again(say)
	expect("4d ")
}
