// SPDX-License-Identifier: Apache-2.0

package text

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"boxdyno/report"
)

// JUnit counts what it holds, and says of each case why; whatever the names are.
func TestJUnit(t *testing.T) {
	nasty := "a<b>&\"'\x00\x1b\xff]]>"
	var b bytes.Buffer
	if err := JUnit(&b, nasty, []report.Case{{Class: "c", Name: "good"}, {Class: "c", Name: nasty, Failure: nasty}, {Class: "c", Name: "open", Skipped: "too few"}, {Class: "c", Name: "bad", Failure: "slower by 5 %"}}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		XMLName  xml.Name `xml:"testsuites"`
		Failures int      `xml:"failures,attr"`
		Suites   []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Skipped  int `xml:"skipped,attr"`
			Cases    []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, b.String())
	}
	s := got.Suites[0]
	if len(got.Suites) != 1 || got.Failures != 2 || s.Tests != 4 || s.Failures != 2 || s.Skipped != 1 || len(s.Cases) != 4 {
		t.Fatalf("%+v", got)
	}
	if c := s.Cases; c[0].Failure != nil || c[0].Skipped != nil || c[3].Failure == nil || c[3].Failure.Message != "slower by 5 %" || c[2].Skipped.Message != "too few" || !strings.HasPrefix(c[1].Failure.Message, "a<b>&") {
		t.Errorf("%+v", c)
	}
}
