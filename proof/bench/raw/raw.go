// Package raw speaks to a Redis server with nothing in between: it sends prepared bytes and
// counts replies. It shows what the server itself can do.
package raw

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Conn is a connection to a server, for one goroutine.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial connects to addr.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Command appends a command to buf.
func Command(buf []byte, args ...string) []byte {
	buf = fmt.Appendf(buf, "*%d\r\n", len(args))
	for _, arg := range args {
		buf = fmt.Appendf(buf, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return buf
}

// Do sends commands and reads that many replies. Its error is the first error reply, or the
// connection's error.
func (c *Conn) Do(commands []byte, replies int) error {
	if _, err := c.conn.Write(commands); err != nil {
		return err
	}
	for range replies {
		if _, err := c.reply(); err != nil {
			return err
		}
	}
	return nil
}

// Load makes the server keep a script, and returns its hash.
func (c *Conn) Load(script string) (hash string, err error) {
	if _, err := c.conn.Write(Command(nil, "SCRIPT", "LOAD", script)); err != nil {
		return "", err
	}
	return c.reply()
}

// reply reads a reply, and returns it if it is a single string or number.
func (c *Conn) reply() (string, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimRight(string(line[1:]), "\r\n")
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", fmt.Errorf("the server says %s", text)
	case '$', '*':
	default:
		return "", fmt.Errorf("a reply begins with %q", kind)
	}
	size, err := strconv.Atoi(text)
	if err != nil || size < 0 { // -1: nil
		return "", err
	}
	if kind == '*' {
		for range size {
			if _, err := c.reply(); err != nil {
				return "", err
			}
		}
		return "", nil
	}
	body := make([]byte, size+len("\r\n"))
	_, err = io.ReadFull(c.in, body)
	return string(body[:size]), err
}
