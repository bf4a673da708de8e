package node

import (
	"net"
	"time"
)

// Listen listens at addr. A process that is started again has an address of old, whose port a
// connection of somebody else may have for a moment.
func Listen(addr string) (net.Listener, error) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		listener, err := net.Listen("tcp", addr)
		if err == nil || time.Now().After(end) {
			return listener, err
		}
	}
}
