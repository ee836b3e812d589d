// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// cryptoRun is made up: a cipher of the study on two paths, one of which lacks it, and a
// signature.
func cryptoRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-crypto", "", nil, nil
	run.Command = []string{"boxdyno", "run", "crypto"}
	run.NotMeasured, run.Deviations = nil, nil
	var recs []result.Record
	add := func(status result.Status, reason, path, cipher, parallel, driver, known string, values ...result.Value) {
		now := unit.Instant(len(recs)) * 2e9
		id := fmt.Sprintf("crypto/%d", len(recs))
		at := report.Origin.Add(time.Duration(now))
		recs = append(recs, result.Record{Schema: result.Schema, ID: id, Procedure: "crypto", Repeat: 1, Status: status, Reason: reason, Start: at, Begin: now, End: now + 1e9, Values: values,
			Config: []result.Pair{{Key: "path", Value: path}, {Key: "cipher", Value: cipher}, {Key: "block", Value: "0"}, {Key: "parallel", Value: parallel}}})
		if driver != "" {
			recs = append(recs, result.Record{Schema: result.Schema, ID: id + "/1", Parent: id, Procedure: "crypto", Repeat: 1, Status: status, Start: at, Begin: now, End: now + 1e9,
				Config: []result.Pair{{Key: "trial", Value: "1"}, {Key: "driver", Value: driver}, {Key: "cpu_features", Value: "aes_avx"}, {Key: "known_answer", Value: known}}})
		}
	}
	val := func(metric string, sym unit.Symbol, v float64) result.Value {
		return result.Value{Metric: metric, Unit: sym, Value: v}
	}
	add(result.Passed, "", "openssl", "aes-cbc-128", "all", "OpenSSL_3.0.22", "aes-cbc-128", val("encrypt_bytes_per_s", "B/s", 2000<<20), val("decrypt_bytes_per_s", "B/s", 8000<<20), val("copies", "1", 2))
	add(result.Passed, "", "botan", "aes-cbc-128", "1", "Botan_2.19.3", "aes-gcm-128,_no_command", val("encrypt_bytes_per_s", "B/s", 800<<20), val("copies", "1", 1))
	add(result.Skipped, "OpenSSL has no serpent-cbc-128", "openssl", "serpent-cbc-128", "1", "", "")
	add(result.Passed, "", "openssl", "ed25519", "1", "OpenSSL_3.0.22", "ed25519,_a_known_signature", val("signs_per_s", "1/s", 26000), val("verifies_per_s", "1/s", 10000), val("copies", "1", 1))
	return run, recs
}

// Paths stand side by side with driver and streams; what was published of the cipher
// stands in a table below, once and with its caution; what was skipped says why.
func TestCryptoTables(t *testing.T) {
	run, recs := cryptoRun()
	got := strings.Join(strings.Fields(printed(t, report.Summarized(run, recs))), " ")
	for _, want := range []string{
		"openssl aes-cbc-128 all 2.10 GB/s 8.39 GB/s", "computed by OpenSSL 3.0.22",
		"botan aes-cbc-128 1 839 MB/s -", "computed by Botan 2.19.3",
		"as published: one stream, by cryptsetup what encrypted decrypted notes aes-cbc-128, Pi 3B+, no AES, 4 cores, 1.4 GHz", "aes-cbc-128, Pi 4B, 1.5 GHz 25.0 MB/s 81.8 MB/s",
		"aes-cbc-128, NUC i5-8500T, AES, 6 cores 1.02 GB/s 3.03 GB/s", // of the raw results: 3.03
		"aes-cbc-128, Pi 4B (Raspbian Buster 32-bit) 46.8 MB/s",
		"openssl ed25519 26.0 k/s 10.0 k/s",
		"the slow AES on its Pi 4 is a kernel driver's",
		"known answer: aes-gcm-128, no command",
		"OpenSSL has no serpent-cbc-128",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Count(got, "25.0 MB/s 81.8 MB/s") != 1 || strings.Contains(got, "Pi 3B+ cluster") {
		t.Error("published figures are repeated, or those of many nodes are among them")
	}
	if t.Failed() {
		t.Log(printed(t, report.Summarized(run, recs)))
	}
}
