// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"slices"
	"testing"

	"boxdyno/procedure"
)

// What a point has open is closed while others have their turn, and stays so where the
// run does not come back.
func TestRestClosesMeanwhile(t *testing.T) {
	failure := errors.New("failed")
	for _, c := range []struct {
		more   bool
		closes error
		want   []string
	}{
		{true, nil, []string{"close", "pause", "open"}},
		{false, nil, []string{"close", "pause"}},
		{true, failure, []string{"close"}},
	} {
		var did []string
		env := &procedure.Env{Pause: func(found procedure.Outcome) bool {
			did = append(did, "pause")
			return c.more
		}}
		err := pauseClosed(t.Context(), env, procedure.Outcome{Reason: "so far"}, func() error {
			did = append(did, "close")
			return c.closes
		}, func(context.Context) error {
			did = append(did, "open")
			return nil
		})
		var left *leftError
		if gone := errors.As(err, &left); gone == c.more && c.closes == nil || gone && left.found.Reason != "so far" || !errors.Is(err, c.closes) && c.closes != nil {
			t.Errorf("more %v: %v", c.more, err)
		}
		if !slices.Equal(did, c.want) {
			t.Errorf("more %v: %v, want %v", c.more, did, c.want)
		}
	}
}
