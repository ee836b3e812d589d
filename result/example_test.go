// SPDX-License-Identifier: Apache-2.0

package result_test

import (
	"fmt"
	"os"
	"path/filepath"

	"boxdyno/result"
)

// A bundle is written trial by trial. The last record of an ID counts.
func ExampleCreate() {
	parent, err := os.MkdirTemp("", "bundle")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "run")
	b, err := result.Create(dir, result.Run{Schema: result.Schema})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, status := range []result.Status{result.Running, result.Passed} {
		if err := b.Append(result.Record{ID: "forward.1", Status: status}); err != nil {
			fmt.Println(err)
		}
	}
	if err := b.Close(); err != nil {
		fmt.Println(err)
	}
	_, records, err := result.Open(dir)
	fmt.Println(len(records), records[0].ID, records[0].Status, err)
	// Output: 1 forward.1 passed <nil>
}
