// SPDX-License-Identifier: Apache-2.0

package iperf

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// What iperf3 keeps and says does not grow with the time that it sends.
func TestClientIsBounded(t *testing.T) {
	c := Client{From: netip.MustParseAddr("198.18.0.1"), To: netip.MustParseAddr("198.19.0.1"), Port: 5201, Connections: mostConnections, Length: mostLength}
	if argv := strings.Join(c.argv(), " "); c.Check() != nil || !strings.Contains(argv, "--time 86400 ") || !strings.Contains(argv, " --interval 0") {
		t.Error(argv)
	}
	for _, change := range []func(*Client){
		func(c *Client) { c.To = netip.Addr{} }, func(c *Client) { c.Port = 0 }, func(c *Client) { c.Connections++ }, func(c *Client) { c.Length += time.Second }, func(c *Client) { c.Payload = -1 },
	} {
		bad := c
		if change(&bad); bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
