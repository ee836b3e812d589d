// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Who may ask what:
//
//	Host      an address, localhost or a name that was given; a page of another name
//	          that resolves to this machine gets nothing (DNS rebinding)
//	Origin    where a browser names it, this server; so does Sec-Fetch-Site
//	token     in the header Authorization, which no form and no link of another page can
//	          set; there are no cookies
//	JSON      what changes something has this content type

func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		h := w.Header()
		h.Set("Content-Security-Policy", s.csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if err := s.allowed(r); err != nil {
			fail(w, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		next.ServeHTTP(w, r)
	})
}

func (s *Server) allowed(r *http.Request) error {
	if !s.named(r.Host) {
		return answer{http.StatusMisdirectedRequest, "this server does not answer to that host name: add it with --host"}
	}
	if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && origins[0] != s.origin(r) {
		return answer{http.StatusForbidden, "the request is from another page"}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		if r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return answer{http.StatusForbidden, "the request is from another page"}
		}
	}
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead
	public := r.URL.Path == "/" // the page itself holds nothing; it asks for the token
	switch {
	case changes && s.o.ReadOnly:
		return answer{http.StatusForbidden, "this server only shows runs (--read-only)"}
	case changes && !s.knows(r):
		return answer{http.StatusUnauthorized, "the token that was printed at the start is missing or wrong"}
	case !changes && !public && !s.o.Open && !s.knows(r):
		return answer{http.StatusUnauthorized, "the token that was printed at the start is missing or wrong"}
	}
	return nil
}

// knows says whether the request has the token.
func (s *Server) knows(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && s.o.Token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(s.o.Token)) == 1
}

// named says whether a Host header is one of this server's names.
func (s *Server) named(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name = host
		if inner, ok := strings.CutPrefix(host, "["); ok {
			if name, ok = strings.CutSuffix(inner, "]"); !ok {
				return false
			}
		}
	} else if port == "" {
		return false
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name == "localhost" || slices.ContainsFunc(s.o.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// origin is what a browser calls the page of this server.
func (s *Server) origin(r *http.Request) string {
	if s.o.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
