package lockecho

import (
	"bufio"
	"net"
	"net/http"

	"github.com/labstack/echo/v4"
)

// sink is Echo's response with only the methods of net/http.
type sink struct{ *echo.Response }

// WriteHeader passes interim responses on. Echo would take them for the final response.
func (s sink) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		s.Writer.WriteHeader(status)
		return
	}
	s.Response.WriteHeader(status)
}

// FlushError is what http.ResponseController calls to flush. Echo's Flush panics if it cannot
// flush, and hides other errors.
func (s sink) FlushError() error { return http.NewResponseController(s.Writer).Flush() }

// Hijack marks the response as sent: the connection is the handler's, and nobody should write
// an error to it.
func (s sink) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := s.Response.Hijack()
	if err == nil {
		s.Committed = true
	}
	return conn, rw, err
}
