//go:build unix

package servertest

import (
	"net"
	"syscall"
)

// FreePort returns a loopback port that nobody listens on right now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// keepPort keeps others from listening on a port, and refuses connections to it, until the caller
// calls the function that it returns. Otherwise another test's server may get the port of a server
// that was killed, and answer in its place.
//
// If the port can't be kept, it returns nil: the port is then as free as without keepPort.
func keepPort(port int) (leave func()) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil
	}
	// Connections of the killed server may linger on the port, so the socket needs SO_REUSEADDR
	// to get it. Afterwards it must not share the port with others that have that option.
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
	if err != nil {
		_ = syscall.Close(fd)
		return nil
	}
	return func() { _ = syscall.Close(fd) }
}
