// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
)

// A program that never ends is told in a sentence, one that nobody waits for any more is not.
func TestWithin(t *testing.T) {
	if _, err := Within(t.Context(), &host.Local{}, 20*time.Millisecond, "", "sleep", "1000"); err == nil || !strings.Contains(err.Error(), "sleep 1000 hung: it did not end within 20ms") {
		t.Errorf("a program that hangs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Within(ctx, &host.Local{}, time.Minute, "", "sleep", "1000"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if out, err := Within(t.Context(), &host.Local{}, time.Minute, "said", "cat"); err != nil || string(out) != "said" {
		t.Errorf("%q %v", out, err)
	}
	var missing *host.Missing
	if _, err := Within(t.Context(), &host.Local{}, time.Minute, "", "nonesuch-program"); !errors.As(err, &missing) {
		t.Errorf("not installed: %v", err)
	}
}
