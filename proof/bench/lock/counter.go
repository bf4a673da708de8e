package lock

import (
	"context"
	"net"
	"sync/atomic"
)

// Counter counts the commands that a client sends. The server cannot do that: it also counts
// the commands inside scripts.
type Counter struct {
	commands atomic.Int64
}

// Commands returns how many commands were sent so far. A command in two parts counts when its
// first byte is sent.
func (c *Counter) Commands() int64 { return c.commands.Load() }

func (c *Counter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: conn, counter: c}, nil
}

// countingConn reads what is written. Every command is an array of strings:
// *2\r\n$3\r\nGET\r\n$1\r\nk\r\n.
type countingConn struct {
	net.Conn
	counter *Counter

	skip   int  // bytes until the next header line
	header byte // '*' or '$': in a header line; 0: before one
	number int  // the number in the header line, as far as it has come
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.follow(p[:n])
	return n, err
}

func (c *countingConn) follow(p []byte) {
	for i := 0; i < len(p); i++ {
		switch b := p[i]; {
		case c.skip > 0: // inside a string: skip the rest at once
			step := min(c.skip, len(p)-i)
			c.skip -= step
			i += step - 1
		case c.header == 0:
			c.header, c.number = b, 0
			if b == '*' {
				c.counter.commands.Add(1)
			}
		case b == '\n':
			if c.header == '$' {
				c.skip = c.number + len("\r\n")
			}
			c.header = 0
		case b >= '0' && b <= '9':
			c.number = 10*c.number + int(b-'0')
		}
	}
}
