// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The bounds of what is asked.
const (
	mostWords  = 400 // octets of one value
	mostValues = 16  // of one name
)

// checked refuses names that are not among those, and values that are too long or too many.
func checked(q url.Values, err error, names ...string) error {
	if err != nil {
		return answer{http.StatusBadRequest, "the address has values that cannot be read"}
	}
	for name, values := range q {
		if !slices.Contains(names, name) {
			return answer{http.StatusBadRequest, "only these can be asked for: " + strings.Join(names, ", ")}
		}
		for _, v := range values {
			if len(v) > mostWords || len(values) > mostValues {
				return answer{http.StatusBadRequest, fmt.Sprintf("%s: give at most %d values of at most %d octets", name, mostValues, mostWords)}
			}
		}
	}
	return nil
}

// refused is an error of what was asked.
func refused(err error) error {
	return answer{http.StatusUnprocessableEntity, strings.Join(strings.Fields(err.Error()), " ")}
}

// boards is GET /api/boards?need=...
func (s *Server) boards(w http.ResponseWriter, r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err := checked(q, err, "need"); err != nil {
		return err
	}
	if s.o.Boards == nil {
		return answer{http.StatusNotFound, "this server has no catalogue of boards"}
	}
	v, err := s.o.Boards(q.Get("need"))
	if err != nil {
		return refused(err)
	}
	return reply(w, v)
}
