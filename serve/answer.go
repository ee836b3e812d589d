// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"net/http"
)

// An answer is an error with its status.
type answer struct {
	status int
	text   string // one sentence
}

func (a answer) Error() string { return a.text }

// fail answers with an error in JSON.
func fail(w http.ResponseWriter, err error) {
	a, ok := err.(answer)
	if !ok {
		a = answer{http.StatusInternalServerError, err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": a.text})
}
