package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// patience is how long a client repeats a refused request. A service that makes everybody
	// wait for longer is broken.
	patience = 10 * time.Second
	// requestTimeout bounds one attempt.
	requestTimeout = 30 * time.Second
)

// client sends requests through any gateway.
type client struct {
	gateways []string
	http     *http.Client
	done     atomic.Int64
}

func newClient(gateways []string) *client {
	return &client{
		gateways: gateways,
		http: &http.Client{
			Timeout:   requestTimeout,
			Transport: &http.Transport{MaxIdleConnsPerHost: 128}, // otherwise most connections would be closed and opened again
		},
	}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// do sends a request to a gateway, and repeats it if it is refused for now, as a client has to.
func (c *client) do(ctx context.Context, gateway int, method, path string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for end := time.Now().Add(patience); ; {
		again, err := c.try(ctx, gateway, method, path, content)
		if err == nil {
			c.done.Add(1)
			return nil
		}
		if again == 0 || time.Now().Add(again).After(end) {
			return err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// try sends a request once. With an error, again says after what time to try again; 0: not at
// all.
func (c *client) try(ctx context.Context, gateway int, method, path string, content []byte) (again time.Duration, err error) {
	url := "http://" + c.gateways[gateway%len(c.gateways)] + path
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body) // read all of it, so that the connection can be used again
	switch {
	case err != nil:
		return 0, err
	case resp.StatusCode < 300:
		return 0, nil
	}
	err = fmt.Errorf("%s %s: %s: %.200s", method, path, resp.Status, bytes.TrimSpace(answer))
	switch resp.StatusCode {
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return retryAfter(resp.Header), err
	}
	return 0, err
}

// retryAfter is the time that the service asks for, and some jitter, so that callers that were
// refused together do not come back together.
func retryAfter(h http.Header) time.Duration {
	wait := 100 * time.Millisecond
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err == nil && seconds > 0 {
		wait = time.Duration(seconds) * time.Second
	}
	return wait + rand.N(wait/2)
}

// parallel runs fn(0) to fn(n-1) at the same time. The first error ends the context of the
// others, and is returned.
func parallel(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := fn(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
