// SPDX-License-Identifier: Apache-2.0

package text

import (
	"encoding/xml"
	"fmt"
	"io"

	"boxdyno/report"
)

// JUnit writes cases as JUnit XML, the form that continuous integration reads:
// testsuites, testsuite, testcase, failure and skipped, with their counts.
func JUnit(w io.Writer, suite string, cases []report.Case) error {
	type message struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
	type testcase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *message `xml:"failure,omitempty"`
		Skipped *message `xml:"skipped,omitempty"`
	}
	type testsuite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Time     string     `xml:"time,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	s := testsuite{Name: suite, Tests: len(cases), Time: "0"}
	for _, c := range cases {
		t := testcase{Class: c.Class, Name: c.Name, Time: "0"}
		switch {
		case c.Failure != "":
			s.Failures++
			t.Failure = &message{c.Failure, "slower", c.Failure}
		case c.Skipped != "":
			s.Skipped++
			t.Skipped = &message{Message: c.Skipped}
		}
		s.Cases = append(s.Cases, t)
	}
	data, err := xml.MarshalIndent(struct {
		XMLName  xml.Name  `xml:"testsuites"`
		Tests    int       `xml:"tests,attr"`
		Failures int       `xml:"failures,attr"`
		Suite    testsuite `xml:"testsuite"`
	}{Tests: s.Tests, Failures: s.Failures, Suite: s}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}
