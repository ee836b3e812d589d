// SPDX-License-Identifier: Apache-2.0

package sizing

// This file names the jobs, and the procedures and metrics that measure them. No other
// file does.

// The kinds of jobs.
const (
	IDS      = "ids"      // inspect traffic: bit/s
	Firewall = "firewall" // forward frames of 64 octets: frame/s
	Crypto   = "crypto"   // encrypt or decrypt: B/s
	HPL      = "hpl"      // solve linear equations: flop/s
)

// Procedures of a fleet whose boards do a job together.
const (
	fleetCrypto = "fleet-crypto"
	fleetHPL    = "fleet-hpl-mpi"
)

// ofBoard are the catalogue's names of a board's rate.
var ofBoard = map[string]string{HPL: "hpl", Firewall: "forward"}

// publishedRate is the metric of published rates of ciphers.
const publishedRate = "throughput"

// Procedures are those that measure a job.
func (j Job) Procedures() []string {
	switch j.Kind {
	case Firewall:
		return []string{"forward", "throughput"}
	case Crypto:
		return []string{j.Kind, fleetCrypto}
	case HPL: // boards that solve a system each do not do together what one system needs
		return []string{j.Kind, fleetHPL}
	}
	return []string{j.Kind}
}

// Metric is the name of the job's rate in records.
func (j Job) Metric() string {
	switch j.Kind {
	case IDS:
		return "ids_rate_bps"
	case Firewall:
		return "throughput_fps"
	case Crypto:
		return j.Direction + "_bytes_per_s"
	}
	return "hpl_rate"
}
