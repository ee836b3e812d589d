// SPDX-License-Identifier: Apache-2.0

package netns

import "runtime"

// The main thread cannot die and /proc/self/net is its view, so it must never
// be one that enters a namespace: main keeps it.
func init() { runtime.LockOSThread() }
