//go:build browser

package browsertest

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/coverage"
)

var screenshots = flag.String("screenshots", "", "a directory for screenshots of each page, which take five minutes of samples")

// TestScreenshots makes the pictures of docs/console.md. They show a world that is made for it.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("make screenshots makes them")
	}
	w := newWorld()
	w.deadlock(0)
	c, err := console.New(w, console.WithTitle("im prod"), console.WithInterval(200*time.Millisecond), console.WithHistory(),
		console.WithTraceURL("https://tempo.example/trace/{trace_id}"),
		console.WithOperator(func(*http.Request) (string, bool) { return "alice", true }),
		console.WithRules(func() []coverage.Target {
			return []coverage.Target{
				{Name: "/im.v1.Groups/Join", Rules: []coverage.Rule{{Key: "group:{group_id}/members"}}},
				{Name: "/im.v1.Users/SetStatus", Rules: []coverage.Rule{{Key: "user:{user_id}/status", RunUnlocked: true}}},
				{Name: "im:message", Rules: []coverage.Rule{{Key: "message:{payload.message_id}", Once: true}}},
				{Name: "PUT /stock/:id", Rules: []coverage.Rule{{Key: "stock:{path.uid}", Problem: "{path.uid}: the route has no such parameter"}}},
				{Name: "/grpc.health.v1.Health/Check"},
			}
		}))
	must(t, err)
	server := httptest.NewServer(c)
	defer server.Close()
	defer c.Close()                            // ends the streams, for which the server would wait
	time.Sleep(5*time.Minute + 30*time.Second) // so that the bands have something to show
	for _, shot := range []struct {
		name, path, scheme string
		width              int64
	}{
		{"locks", "/", "light", 1180},
		{"key", "/key?k=group%3A7%2Fmembers", "light", 1180},
		{"waits", "/waits", "light", 1180},
		{"waits-dark", "/waits", "dark", 1180},
		{"hot", "/hot", "light", 1180},
		{"processes", "/processes", "light", 1180},
		{"rules", "/rules", "light", 1180},
		{"locks-375", "/", "light", 375},
	} {
		t.Run(shot.name, func(t *testing.T) {
			b := newTab(t)
			b.show(shot.width, shot.scheme)
			b.do(chromedp.Navigate(server.URL + shot.path))
			b.await(`document.querySelector("#live.on")`)
			picture := get(b, chromedp.FullScreenshot(100))
			must(t, os.WriteFile(filepath.Join(*screenshots, "console-"+shot.name+".png"), picture, 0o644))
		})
	}
}
