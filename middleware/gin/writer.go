package lockgin

import (
	"bufio"
	"errors"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// writer is gin's for a response that a rule keeps back. Like gin's own, it sends the status with the
// first byte of the body.
type writer struct {
	gin.ResponseWriter // for what is not below: CloseNotify and Pusher
	to                 http.ResponseWriter
	status, size       int
	written            bool
}

func (w *writer) Header() http.Header { return w.to.Header() }

func (w *writer) WriteHeader(code int) {
	if code > 0 && !w.written {
		w.status = code
	}
}

func (w *writer) WriteHeaderNow() {
	if !w.written {
		w.written = true
		w.to.WriteHeader(w.status)
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.to.Write(p)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *writer) Status() int   { return w.status }
func (w *writer) Written() bool { return w.written }

// Size is below 0 before something was written, as with gin.
func (w *writer) Size() int {
	if !w.written {
		return -1
	}
	return w.size
}

func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.to).Flush() // gin's has no error
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.to).Hijack()
	w.written = w.written || err == nil
	return conn, rw, err
}

func (w *writer) Unwrap() http.ResponseWriter { return w.to }

// plain is gin's writer as net/http's are, for a rule: gin's own sends a status with the body only, and
// panics at a Hijack that HTTP/2 does not have.
type plain struct{ gin.ResponseWriter }

func (w plain) WriteHeader(code int) {
	w.ResponseWriter.WriteHeader(code)
	w.WriteHeaderNow()
}

func (w plain) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	below, ok := w.ResponseWriter.(interface{ Unwrap() http.ResponseWriter })
	if !ok {
		return nil, nil, errors.ErrUnsupported
	}
	return http.NewResponseController(below.Unwrap()).Hijack()
}

func (w plain) Unwrap() http.ResponseWriter { return w.ResponseWriter }
