// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// Text writes the document for a terminal: no colour codes, at most 100 columns.
func Text(w io.Writer, d Document) (err error) {
	var whole bytes.Buffer
	b := bufio.NewWriter(&whole)
	defer func() {
		if err == nil {
			_, err = io.WriteString(w, Printable(whole.String()))
		}
	}()
	t := &texter{b}
	word, rest := opening(d)
	t.wrap(word+"  ", rest)
	if d.Summary != d.Sentence {
		t.wrap("", d.Summary)
	}
	t.wrap("", d.Caveat)
	for _, s := range d.Warnings {
		t.wrap("! ", s)
	}
	for _, f := range d.Findings {
		t.wrap("  "+mark(f)+"  ", f.Criterion.Text+": "+outcome(f))
	}
	t.list("What this box can do", d.said())
	t.list("What could not be measured here", d.skipped())
	t.list("How sure", d.Sure)
	for _, tb := range tables(d) {
		t.head(tb.title)
		t.table(tb)
	}
	if d.Beside != nil {
		t.list(besideTitle, d.Beside.besideSaid())
		for _, tb := range d.Beside.besideTables() {
			t.head(tb.title)
			t.table(tb)
		}
	}
	if d.Study != nil {
		t.list(studyTitle, d.Study.Why)
	}
	if len(d.SharedWarnings) > 0 {
		t.head("Of every row above")
		for _, s := range d.SharedWarnings {
			t.wrap("  ! ", s)
		}
	}
	if bn := d.Bottleneck; bn != nil {
		t.head("Why there")
		t.wrap("  ", bn.Name+": "+bn.Sentence)
	}
	if r := telling(d); r != nil {
		t.head("Where every frame went: " + r.booked())
		t.table(r.accounted())
	}
	t.list(publishedTitle, d.Cited)
	t.list("What next", d.Next)
	t.head("How it was measured")
	for _, s := range measured(d) {
		t.wrap("  ", s)
	}
	t.list("Not measured", d.NotMeasured)
	t.list("Deviations from the standards", d.Deviations)
	t.head("Repeat it")
	fmt.Fprintf(b, "  %s\n", clean(d.Command))
	return b.Flush()
}

// tables are the figures of all rows, each table at most width columns.
func tables(d Document) []table {
	if d.Ablation != nil {
		return d.Ablation.tables()
	}
	var out []table
	for _, t := range d.Tables {
		out = append(out, t.folded()...)
	}
	return out
}

func si(v *float64, b result.Bound) string {
	if v == nil {
		return "-"
	}
	s := strings.TrimSpace(unit.SI(*v))
	if b != result.Exactly {
		s = string(b) + " " + s
	}
	return s
}

func seconds(v *float64) string {
	if v == nil {
		return "-"
	}
	return unit.SI(*v) + "s"
}

func share(v *float64) string {
	if v == nil {
		return "-"
	}
	return percent(*v)
}

func interval(lo, hi *float64) string {
	switch {
	case hi == nil && (lo == nil || *lo == 0), lo != nil && hi != nil && *lo == 0 && *hi == 0:
		return "-"
	case hi == nil:
		return "from " + si(lo, "")
	case lo == nil:
		return "to " + si(hi, "")
	}
	a, b := si(lo, ""), si(hi, "")
	if a == b {
		return a
	}
	if x, prefix, ok := strings.Cut(a, " "); ok && strings.HasSuffix(b, " "+prefix) {
		a = x // 1.17–1.19 M
	}
	return a + "–" + b
}

// telling is the row whose ledger says most: that of the bottleneck, or else
// the one that lost the largest share unasked.
func telling(d Document) *Row {
	var best *Row
	most := -1.0
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.Ledger == nil || r.Ledger.Accepted == 0 {
			continue
		}
		if d.Bottleneck != nil && d.Bottleneck.Row == r.ID {
			return r
		}
		lost := float64(r.Ledger.Lost()) / float64(r.Ledger.Accepted)
		if r.Security != nil {
			lost = float64(wanted(r.Ledger).Lost()) / float64(r.Ledger.Accepted)
		}
		if strings.HasPrefix(r.Service, "drop-") {
			lost = 0
		}
		if lost > most {
			best, most = r, lost
		}
	}
	return best
}

// booked is what the row's ledger is of.
func (r *Row) booked() string {
	if r.Security != nil {
		return r.Name + ", all phases"
	}
	if r.Connections != nil {
		return r.Name + ", frames of both ends"
	}
	if r.Capture != nil || r.IDS != nil || r.Infer != nil {
		return r.Name
	}
	if r.Flood != nil {
		return r.Name + ", all phases"
	}
	return r.Name + ", last overload trial"
}

// accounted is the row's account; that of a capture ends in its subject.
func (r *Row) accounted() table {
	tb := ledgerTable(r.Ledger)
	if r.Capture != nil || r.IDS != nil || r.Infer != nil {
		for i := range tb.rows {
			if row := tb.rows[i]; row[2] == "meter" && row[3] == "received" {
				row[2], row[3] = "subject", "counted"
			}
		}
	}
	return tb
}

// ledgerTable is the account as an equation read downwards; every line has the
// counter it was read from.
func ledgerTable(a *result.Account) table {
	tb := table{head: []string{"frames", "of accepted", "where", "what", "counter"}, right: []bool{true, true, false, false, false}}
	of := func(n int64) string {
		if a.Accepted == 0 {
			return "-"
		}
		return percent(float64(abs(n)) / float64(a.Accepted))
	}
	if a.Intended > 0 {
		tb.add(thousands(a.Intended), "", "tester", "intended", "")
	}
	if a.Refused != 0 {
		tb.add(thousands(-a.Refused), "", "tester", "refused", "")
	}
	if a.NotSent != 0 {
		tb.add(thousands(-a.NotSent), "", "tester", "not sent in time", "")
	}
	tb.add(thousands(a.Accepted), of(a.Accepted), "tester", "accepted", "")
	for _, t := range a.Drops {
		tb.add(thousands(-t.N), of(-t.N), string(t.Place), clip(t.Name), clip(cmp.Or(t.From, "-")))
	}
	tb.add(thousands(-a.InFlight), of(-a.InFlight), "", "in flight", "")
	tb.add(thousands(-a.Unexplained), of(-a.Unexplained), "", "unexplained", "")
	tb.add(thousands(a.Received), of(a.Received), "meter", "received", "")
	if a.Duplicate != 0 {
		tb.add(thousands(a.Duplicate), of(a.Duplicate), "meter", "of them duplicates", "")
	}
	return tb
}

// clip keeps a cell short enough for its line; the whole text is in the data.
func clip(s string) string { return clipTo(s, 30) }

// clipTo is s in at most n characters.
func clipTo(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// thousands prints n exactly, in groups of three.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return sign + s
}

// measured is the environment in lines.
func measured(d Document) (out []string) {
	line := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	line("boxdyno %s, run %s, %s, preset %s, topology %s, seed %d", d.Version, d.ID, d.Start.UTC().Format("2006-01-02 15:04 UTC"), d.Preset, d.Topology, d.Seed)
	for _, m := range d.Machines {
		s := fmt.Sprintf("%s: %s, %d x %s, %sB, %s %s (%s), %s", m.Name, cmp.Or(m.Board, "unknown board"), m.CPUs, m.CPU, unit.SI(float64(m.Memory)), m.Kernel, m.Machine, m.Userland, m.OS)
		if m.Virtual != "" {
			s += ", virtual (" + m.Virtual + ")"
		}
		line("%s", s)
	}
	var words []string
	para := func(head string) {
		if len(words) > 0 {
			line("%s: %s", head, strings.Join(words, "; "))
		}
		words = nil
	}
	for _, p := range d.Backend {
		words = append(words, p.Key+" "+p.Value)
	}
	para("tester")
	for _, s := range d.SelfTests {
		w := s.Name + " " + cmp.Or(s.ceiling(), "no ceiling")
		if s.Verdict != result.Passed {
			w += " (" + string(s.Verdict) + ")"
		}
		words = append(words, w)
	}
	para("its ceiling by self-test")
	for _, s := range d.Environment {
		w := s.Key + " " + s.Before
		if s.After != "" {
			w += ", afterwards " + s.After
		}
		words = append(words, w)
	}
	para("environment")
	out = append(out, d.Metered...)
	return append(out, d.Watched.sentences(d)...)
}

// mark is a finding's outcome before its text; what failed stands out.
func mark(f verdict.Finding) string {
	if f.Status == result.Failed {
		return loud(f.Status)
	}
	return findingWord(f)
}

func loud(s result.Status) string {
	if s == result.Failed {
		return "FAILED"
	}
	return string(s)
}
