// SPDX-License-Identifier: Apache-2.0

//go:build race

package testutil

// race says whether this was compiled with the race detector.
const race = true
