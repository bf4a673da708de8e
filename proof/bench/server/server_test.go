package server

import (
	"net"
	"os"
	"strings"
	"testing"
)

func TestServerServesUntilItIsClosed(t *testing.T) {
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", s.Addr); err == nil {
		conn.Close()
		t.Error("it still takes connections")
	}
}

func TestStartSaysWhyItFails(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if _, err := Start("--no-such-option", "1"); err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("the error is %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestClusterServesUntilItIsClosed(t *testing.T) {
	c, err := StartCluster(3)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Addrs) != 3 {
		t.Errorf("the masters are %v", c.Addrs)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, addr := range c.Addrs {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Error("it still takes connections")
		}
	}
}
