// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"sync"
	"testing"
)

// Of tags that several give a run at once none is lost.
func TestTagsOfSeveral(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if err := ChangeTags(nil, dir, func(tags []string) []string { return append(tags, fmt.Sprint("t", i)) }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if tags, err := ReadTags(dir); err != nil || len(tags) != 16 {
		t.Errorf("%q, %v", tags, err)
	}
}
