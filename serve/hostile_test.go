// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/result"
)

// A hostile request is sent as it stands; "HOST" in it is the server's address.
type hostile struct {
	name, text string
	want       []int // status; 0: the connection is closed without an answer
}

const auth = "Authorization: Bearer " + token + "\r\n"

func hostileRequests() (all []hostile) {
	add := func(name, text string, want ...int) { all = append(all, hostile{name, text, want}) }
	get := func(path, headers string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: HOST\r\n" + headers + "\r\n"
	}
	post := func(path, headers, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: HOST\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), headers, body)
	}
	const json = "Content-Type: application/json\r\n"
	// Names of runs that are paths, or would be.
	ids := []string{"..", ".", "%2e%2e", "..%2f..%2fsecret", "..%2Fsecret", "%2e%2e%2fsecret", "..%5csecret", "%2fetc%2fpasswd", "%00", "one%00", "one%2f", "one%2frun.json", "one%2f..%2f..%2fsecret",
		"....%2f%2fsecret", "%252e%252e%252fsecret", "%c0%ae%c0%ae%c0%afsecret", "one%0d%0aX-Injected:%201", "%ff%fe", "linked", "secret", "~", "*", "one%20", "One", "one.", "%e2%80%ae", "-", "%25s%25n", "%3Cscript%3E", strings.Repeat("a", 4000), strings.Repeat("%2e%2e%2f", 500)}
	for _, id := range ids {
		for _, path := range []string{"/page", "/report", "/timeline?from=0&to=1&steps=1"} {
			add("id "+id[:min(len(id), 30)]+path, get("/api/runs/"+id+path, ""), 404, 400, 301, 307)
		}
		add("compare "+id[:min(len(id), 30)], get("/api/compare?run=one&run="+id, ""), 404, 400)
		add("events "+id[:min(len(id), 30)], get("/api/events?run="+id, ""), 404, 400)
		add("cancel "+id[:min(len(id), 30)], post("/api/runs/"+id+"/cancel", auth+json, "{}"), 404, 400, 301, 307)
	}
	for _, path := range []string{"/../secret", "/..%2fsecret", "//secret", "/secret/", "/api", "/api/", "/api/runs/", "/api/runs/one", "/api/runs/one/page/", "/api/runs/one/../../../secret", "/.git/config", "/dist/serve.html", "/debug/pprof/", "/debug/vars", "/favicon.ico", "/index.html", "/;/", "/\\..\\secret", "/%"} {
		add("path "+path, get(path, ""), 404, 400, 301, 307)
	}
	for _, host := range []string{"evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "", "localhost:", "[::1", "a b", "127.0.0.1:1:2", "@evil.example", "0x7f.1", "evil.example#localhost"} {
		add("Host "+host, "GET /api/runs HTTP/1.1\r\nHost: "+host+"\r\n\r\n", 421, 400)
	}
	add("no Host", "GET /api/runs HTTP/1.1\r\n\r\n", 400)
	add("two Hosts", "GET /api/runs HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n", 400)
	add("absolute URI", "GET http://evil.example/api/runs HTTP/1.1\r\nHost: HOST\r\n\r\n", 421)
	for _, origin := range []string{"http://evil.example", "null", "https://HOST", "http://HOST.evil.example", "http://HOST/", "file://", "", "http://localhost"} {
		add("Origin "+origin, get("/api/runs", "Origin: "+origin+"\r\n"), 403)
		add("POST by Origin "+origin, post("/api/runs", auth+json+"Origin: "+origin+"\r\n", `{"kind":"procedure","name":"forward"}`), 403)
	}
	add("two Origins", get("/api/runs", "Origin: http://HOST\r\nOrigin: http://evil.example\r\n"), 403)
	for _, site := range []string{"cross-site", "same-site"} {
		add("Sec-Fetch-Site "+site, get("/api/runs", "Sec-Fetch-Site: "+site+"\r\n"), 403)
		add("POST by Sec-Fetch-Site "+site, post("/api/runs", auth+json+"Sec-Fetch-Site: "+site+"\r\n", "{}"), 403)
		add("image by Sec-Fetch-Site "+site, get("/", "Sec-Fetch-Site: "+site+"\r\nSec-Fetch-Mode: no-cors\r\n"), 403)
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "get", "FOO", "G\x00T"} {
		add("method "+method, method+" /api/runs HTTP/1.1\r\nHost: HOST\r\n\r\n", 401, 400, 405, 421)
		add("method with token "+method, method+" /api/runs/one/cancel HTTP/1.1\r\nHost: HOST\r\n"+auth+"\r\n", 400, 405, 404, 421)
	}
	for _, bad := range []string{"", "Bearer", "Bearer ", "Bearer " + token[:31], "Bearer " + token + "0", "bearer " + token, "Basic " + token, "Bearer  " + token, token, "Bearer " + strings.ToUpper(token)} {
		add("token "+bad, post("/api/runs", json+"Authorization: "+bad+"\r\n", `{"kind":"procedure","name":"forward"}`), 401)
	}
	add("cookie for a token", post("/api/runs", json+"Cookie: token="+token+"\r\n", "{}"), 401)
	add("token in the address", post("/api/runs?token="+token, json, "{}"), 401)
	for _, kind := range []string{"", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n", "Content-Type: multipart/form-data; boundary=x\r\n", "Content-Type: application/json;\r\n"} {
		add("form "+kind, post("/api/runs", auth+kind, `{"kind":"procedure","name":"forward"}`), 415)
	}
	for _, body := range []string{"", "null1", "[", `{"kind":1}`, `{"name":"forward","name2":""}`, `"x"`, "\x00", `{"set":["a=b"],"kind":"procedure","name":"/etc/passwd"}`, strings.Repeat("[", 20000)} {
		add("body "+body[:min(len(body), 20)], post("/api/runs", auth+json, body), 400)
	}
	add("huge body", post("/api/runs", auth+json, `{"name":"`+strings.Repeat("x", mostBody)+`"}`), 413)
	add("length without end", "POST /api/runs HTTP/1.1\r\nHost: HOST\r\nContent-Length: 99999999999\r\n"+auth+json+"\r\n{", 400, 413, 0)
	add("negative length", "POST /api/runs HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n"+auth+json+"\r\n{}", 400)
	add("two lengths", "POST /api/runs HTTP/1.1\r\nHost: HOST\r\nContent-Length: 2\r\nContent-Length: 3\r\n"+auth+json+"\r\n{} ", 400)
	add("smuggled", "POST /api/runs HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"+json+"\r\n0\r\n\r\nG", 401, 400)
	add("bad chunk", "POST /api/runs HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n"+auth+json+"\r\nzz\r\n", 400)
	add("huge header", get("/api/runs", "X: "+strings.Repeat("x", 2*mostHeader)+"\r\n"), 431)
	add("many headers", get("/api/runs", strings.Repeat("X-Y: z\r\n", 5000)), 431)
	add("header without a name", get("/api/runs", ": x\r\n"), 400)
	add("NUL in a header", get("/api/runs", "X: \x00\r\n"), 400)
	add("folded header", get("/api/runs", "X: a\r\n b\r\n"), 400, 200)
	for _, id := range []string{"x", "0", "-1", "1-2", "1-2-3-4", "1-2-x", "zz-1-2", "1-99999999999999999999-0", strings.Repeat("1", 100) + "-0-0", "1--1-0", "%00", "1-2-3\t", "../x", strings.Repeat("a", 10000)} {
		add("Last-Event-ID "+id[:min(len(id), 20)], get("/api/events?run=one", "Last-Event-ID: "+id+"\r\n"), 400, 200)
	}
	for _, q := range []string{"", "?from=0", "?from=-1&to=1&steps=1", "?from=1&to=0&steps=1", "?from=0&to=1&steps=0", "?from=0&to=1&steps=99999999", "?from=0&to=1e9&steps=1", "?from=99999999999999999999&to=1&steps=1", "?from=0&to=9223372036854775807&steps=x", "?from=%00&to=1&steps=1"} {
		add("window "+q, get("/api/runs/one/timeline"+q, ""), 400)
	}
	for _, q := range []string{"?need=%zz", "?need=" + strings.Repeat("x", mostWords+1), "?" + strings.Repeat("need=x&", mostValues+1), "?board=..%2fsecret"} {
		add("boards "+q[:min(len(q), 30)], get("/api/boards"+q, ""), 400)
	}
	for _, q := range []string{"", "?metric=", "?metric=--output%3dx", "?metric=..%2fsecret", "?metric=Throughput", "?metric=a%00", "?metric=" + strings.Repeat("a", 101), "?metric=a&output=..%2fsecret", "?metric=a&index=secret", "?metric=a&junit=secret", "?metric=a&runs=..",
		"?metric=a&box=%00", "?metric=a&where=" + strings.Repeat("x", mostWords+1), "?metric=a&" + strings.Repeat("where=a%3db&", mostValues+1), "?metric=%zz"} {
		add("history "+q[:min(len(q), 30)], get("/api/history"+q, ""), 400)
	}
	for _, q := range []string{"?for=ids&rules=-1", "?for=ids&rules=1e9", "?for=ids&rules=99999999999999999999", "?for=ids&spare=x", "?format=html", "?published=1", "?runs=..%2fsecret", "?index=secret", "?seed=1", "?json=true", "?for=%00", "?load=%zz", "?shared=" + strings.Repeat("x", mostWords+1), "?" + strings.Repeat("what-if=x&", mostValues+1)} {
		add("size "+q[:min(len(q), 30)], get("/api/size"+q, ""), 400)
	}
	add("size by Origin", get("/api/size?for=ids", "Origin: http://evil.example\r\n"), 403)
	add("history by POST", post("/api/history?metric=a", auth+json, "{}"), 404, 405)
	add("boards by Origin", get("/api/boards", "Origin: http://evil.example\r\n"), 403)
	add("compare one", get("/api/compare?run=one", ""), 400)
	add("compare many", get("/api/compare?"+strings.Repeat("run=one&", 400), ""), 400)
	add("not HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01", 400, 0)
	add("HTTP/0.9", "GET /\r\n\r\n", 400)
	add("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, 421, 400)
	add("HTTP/9.9", "GET / HTTP/9.9\r\nHost: HOST\r\n\r\n", 505, 400)
	add("upgrade", get("/", "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"), 200)
	return all
}

// Hostile requests get the answers in the table, nothing outside of the runs' folder,
// and leave the server as it was.
func TestHostileRequests(t *testing.T) {
	dir := t.TempDir()
	const secret = "SECRET-THAT-NOBODY-MAY-READ"
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(dir, "runs")
	b := bundle(t, runs, "one")
	trial(t, b, 1, result.Passed)
	over(t, b)
	// A folder that is a link to a run elsewhere, and a run whose files are links.
	elsewhere := bundle(t, filepath.Join(dir, "elsewhere"), "linked")
	over(t, elsewhere)
	if err := os.Symlink(elsewhere.Dir, filepath.Join(runs, "linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(runs, "secret"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{result.RunFile, result.TrialsFile} {
		if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(runs, "secret", name)); err != nil {
			t.Fatal(err)
		}
	}
	o := starting(runs)
	o.Library = []string{}
	started := 0
	o.Argv = func(Start) ([]string, error) { started++; return nil, answer{400, "nothing is started here"} }
	h := listening(t, o, "")
	all := hostileRequests()
	if len(all) < 200 {
		t.Errorf("%d requests, want 200 or more", len(all))
	}
	for _, r := range all {
		code, text := raw(t, h.addr, r.text)
		ok := false
		for _, want := range r.want {
			ok = ok || code == want
		}
		if !ok {
			t.Errorf("%s: status %d, want one of %v: %.200s", r.name, code, r.want, text)
		}
		if strings.Contains(text, secret) || strings.Contains(text, "X-Injected") || code == 500 {
			t.Errorf("%s: status %d: %.300s", r.name, code, text)
		}
	}
	if started != 0 {
		t.Errorf("%d runs were started", started)
	}
	if code, text := ask(t, "GET", h.url("/api/runs"), ""); code != 200 || strings.Count(text, `"id"`) != 1 {
		t.Errorf("afterwards: %d %s", code, text)
	}
	// What is right is answered: the table can fail.
	if code, _ := raw(t, h.addr, "GET /api/runs/one/page HTTP/1.1\r\nHost: HOST\r\nOrigin: http://HOST\r\nConnection: close\r\n\r\n"); code != 200 {
		t.Errorf("a good request: %d", code)
	}
	if code, _ := raw(t, h.addr, "POST /api/runs HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 37\r\n"+auth+"\r\n"+`{"kind":"procedure","name":"forward"}`+" "); code != 400 || started != 1 {
		t.Errorf("a good start: %d, %d started", code, started)
	}
}

// raw sends octets and reads the head of the answer with some of what follows.
func raw(t *testing.T, addr, text string) (int, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, strings.ReplaceAll(text, "HOST", addr)) // it may be refused before its end
	if tcp, ok := c.(*net.TCPConn); ok && !strings.Contains(text, "events") {
		_ = tcp.CloseWrite()
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	var b strings.Builder
	for k, v := range res.Header {
		fmt.Fprintln(&b, k, v)
	}
	if res.Header.Get("Content-Type") == "text/event-stream" {
		c.Close() // it has no end
		return res.StatusCode, b.String()
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, b.String() + string(body)
}

// Those who send slowly, or do not read, are given up; others do not notice.
func TestSlowClients(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	patience = 2 * time.Second // the others have as long
	runs := t.TempDir()
	b := bundle(t, runs, "one")
	h := listening(t, opts(runs), "")
	var slow []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /api/runs HTTP/1.1\r\nHost: %s\r\nX-Slow: ", h.addr)
		slow = append(slow, c)
	}
	trial(t, b, 1, result.Passed)
	if got := listen(t, h, "one", "").trials(2); len(got) != 2 {
		t.Errorf("beside slow ones: %v", got)
	}
	for _, c := range slow {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(c); err != nil {
			t.Fatalf("a slow client is still there: %v", err)
		}
	}
	// Only so many may listen.
	for range mostViewers - 1 {
		listen(t, h, "", "")
	}
	if code, _ := raw(t, h.addr, "GET /api/events HTTP/1.1\r\nHost: HOST\r\n\r\n"); code != 503 {
		t.Errorf("one viewer too many: %d", code)
	}
}

// Elsewhere than on this machine nothing is read without the token, but for the page that
// asks for it; with --read-only nothing is changed with it.
func TestWhoMayRead(t *testing.T) {
	runs := t.TempDir()
	over(t, bundle(t, runs, "one"))
	closed, shown := opts(runs), opts(runs)
	closed.Open, shown.ReadOnly, shown.Token = false, true, ""
	for name, c := range map[string]struct {
		o    Options
		want map[string]int
	}{
		"closed":    {closed, map[string]int{"/": 200, "/api/runs": 401, "/api/about": 401, "/api/events": 401, "/api/runs/one/page": 401, "/nothing": 401}},
		"read-only": {shown, map[string]int{"/": 200, "/api/runs": 200, "/api/about": 200, "/api/runs/one/page": 200, "/nothing": 404}},
	} {
		h := listening(t, c.o, "")
		for path, want := range c.want {
			if code, _ := raw(t, h.addr, "GET "+path+" HTTP/1.1\r\nHost: HOST\r\n\r\n"); code != want {
				t.Errorf("%s %s: %d, want %d", name, path, code, want)
			}
		}
		want := map[string]int{"closed": 400, "read-only": 403}[name]
		if code, text := ask(t, "POST", h.url("/api/runs"), "{}"); code != want && !(name == "closed" && code == 403) {
			t.Errorf("%s: a start: %d %s", name, code, text)
		}
	}
}

// The page's policy names its own script and style, and allows no other.
func TestPolicy(t *testing.T) {
	p := policy([]byte(`<script type="module">let a;</script><style>b{}</style>`))
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "frame-ancestors 'none'", "form-action 'none'"} {
		if !strings.Contains(p, want) {
			t.Errorf("%s: no %s", p, want)
		}
	}
	if own := policy(app); strings.Contains(own, "unsafe") || strings.Count(own, "sha256-") != 2 {
		t.Error(own)
	}
}
