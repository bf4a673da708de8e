//go:build browser

package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/memstore"
)

// soon is when a live page must show what has changed.
const soon = 2 * time.Second

func engine(t *testing.T) *core.Engine {
	t.Helper()
	eng, err := core.New(memstore.New(), core.WithTTL(3*time.Second))
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := eng.Close(ctx); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return eng
}

// serve serves a console over source, where alice is the operator.
func serve(t *testing.T, source console.Source, opts ...console.Option) (url string) {
	t.Helper()
	opts = append([]console.Option{console.WithInterval(200 * time.Millisecond)}, opts...)
	opts = append(opts, console.WithOperator(func(*http.Request) (string, bool) { return "alice", true }))
	c, err := console.New(source, opts...)
	must(t, err)
	server := httptest.NewServer(c)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server.URL
}

func acquire(t *testing.T, eng *core.Engine, key string) *core.Lease {
	t.Helper()
	lease, err := eng.Acquire(context.Background(), key)
	must(t, err)
	return lease
}

func keyPage(key string) string { return "/key?" + url.Values{"k": {key}}.Encode() }

const rows = `document.querySelectorAll("#rows tr").length`

func TestARowComesAndGoesWithoutReload(t *testing.T) {
	eng := engine(t)
	at := serve(t, eng)
	b := newTab(t)
	b.do(chromedp.Navigate(at))
	b.await(`document.querySelector("#live.on")`)
	b.do(chromedp.Evaluate[chromedp.Void](`void (window.same = true)`))
	lease := acquire(t, eng, "group:7")
	b.awaitWithin(soon, rows+` === 1 && document.body.innerText.includes("group:7")`)
	// The time goes on by itself, and so does the band.
	b.awaitWithin(soon, `document.querySelector("td.for time").textContent > "0.3 s"`)
	b.await(`document.querySelector("rect[data-open]").width.baseVal.value > 0.3`)
	must(t, lease.Release(context.Background()))
	b.awaitWithin(soon, rows+` === 0 && document.body.innerText.includes("All quiet")`)
	if !ask[bool](b, "window.same === true") {
		t.Error("the page was reloaded")
	}
}

// An operator without a mouse takes a key away, and the holder learns why.
func TestForceByKeyboard(t *testing.T) {
	eng := engine(t)
	lease := acquire(t, eng, "group:7")
	at := serve(t, eng)
	b := newTab(t)
	b.do(chromedp.Navigate(at))
	b.await(rows + " === 1")
	press := func(keys string) { b.t.Helper(); b.do(chromedp.KeyEvent(keys)) }
	tab := func(until string) {
		t.Helper()
		for range 40 {
			if ask[bool](b, "Boolean("+until+")") {
				return
			}
			press(kb.Tab)
		}
		t.Fatalf("the keyboard does not reach %s", until)
	}
	press("/")
	b.await(`document.activeElement.name === "prefix"`)
	press(kb.Backspace) // a real keyboard does not type the character of a key that the page has taken
	press("group")
	press(kb.Enter)
	b.await(`location.search.includes("prefix=group") && ` + rows + ` === 1`)
	tab(`document.activeElement.textContent === "group:7"`)
	press(kb.Enter)
	b.await(`document.querySelector("form.act")`)
	tab(`document.activeElement.name === "reason"`)
	press("hangs")
	tab(`document.activeElement.name === "confirm"`)
	press("group:7")
	tab(`document.activeElement.textContent === "Take it away"`)
	press(kb.Enter)
	b.await(`document.querySelector(".notice") && document.querySelector(".notice").textContent.includes("was taken from")`)
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		t.Fatal("the holder does not notice")
	}
	var lost *driver.LeaseLostError
	if err := context.Cause(lease.Context()); !errors.As(err, &lost) || lost.Reason != driver.LossForced || lost.Detail != "alice: hangs" {
		t.Errorf("%v", err)
	}
	_ = lease.Release(context.Background()) // it is lost
}

// The key has changed hands since the page was loaded: the page says so, and the store refuses.
func TestAStaleFormIsRefused(t *testing.T) {
	eng := engine(t)
	first := acquire(t, eng, "group:7")
	at := serve(t, eng)
	b := newTab(t)
	b.do(chromedp.Navigate(at + keyPage("group:7")))
	b.await(`document.querySelector("#live.on") && document.querySelector("[data-old]").hidden`)
	must(t, first.Release(context.Background()))
	second := acquire(t, eng, "group:7")
	b.awaitWithin(soon, `!document.querySelector("[data-old]").hidden`)
	b.do(
		chromedp.SendKeys(chromedp.CSS(`[name=reason]`), "hangs"), chromedp.SendKeys(chromedp.CSS(`[name=confirm]`), "group:7"),
		chromedp.Click(chromedp.CSS("button.danger")),
	)
	b.await(`document.querySelector(".notice.bad") && document.querySelector(".notice.bad").textContent.includes("has the key by now")`)
	b.forgive("409")
	if err := second.Release(context.Background()); err != nil {
		t.Errorf("the second holder has lost it: %v", err)
	}
}

func TestWithoutScript(t *testing.T) {
	eng := engine(t)
	lease := acquire(t, eng, "group:7")
	at := serve(t, eng)
	b := newTab(t)
	ctx, cancel := b.bounded()
	defer cancel()
	if _, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(at))
	text := get(b, chromedp.OuterHTML(chromedp.CSS("body")))
	for _, want := range []string{"group:7", "reload", "<rect"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	must(t, lease.Release(context.Background()))
	// The page reloads by itself.
	for end := time.Now().Add(patience); !strings.Contains(get(b, chromedp.OuterHTML(chromedp.CSS("body"))), "All quiet"); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not reload")
		}
	}
}

// No page says anything on the console or breaks the policy, also with keys that would, and all fit a telephone.
func TestEveryPage(t *testing.T) {
	const evil = `"><script>document.title='owned'</script><img src=x onerror="document.title='owned'">`
	w := newWorld()
	w.deadlock(10 * time.Second)
	w.lanes = append(w.lanes, lane{key: evil, rule: evil, queue: 1, turns: []turn{{0, time.Hour, 0}}}, lane{key: strings.Repeat("long", 128), rule: strings.Repeat("rule", 64), queue: 1, turns: []turn{{1, time.Hour, 0}}})
	at := serve(t, w)
	b := newTab(t)
	for _, width := range []int64{375, 1180} {
		for _, path := range []string{"/", "/waits", "/hot", "/processes", "/key", keyPage(evil), keyPage("account:alice"), keyPage(strings.Repeat("long", 128)), keyPage("free")} {
			b.show(width, "dark")
			b.do(chromedp.Navigate(at + path))
			b.await(`document.querySelector("#live.on")`)
			if wide := ask[int](b, "document.documentElement.scrollWidth"); wide > int(width) {
				t.Errorf("%s is %d wide on a screen of %d", path, wide, width)
			}
			if cut := ask[int](b, `[...document.querySelectorAll("table")].filter((e) => e.scrollWidth > e.clientWidth).length`); cut > 0 {
				t.Errorf("%s: a table is cut off on a screen of %d", path, width)
			}
			if title := ask[string](b, "document.title"); strings.Contains(title, "owned") {
				t.Errorf("%s: the key has run", path)
			}
		}
	}
	if colour := ask[string](b, "getComputedStyle(document.body).backgroundColor"); colour != "rgb(18, 20, 23)" {
		t.Errorf("dark is %s", colour)
	}
}

// A page with 5000 rows still answers.
func TestManyRows(t *testing.T) {
	w := &world{begin: time.Now().Add(-time.Hour)}
	for i := range 5000 {
		w.lanes = append(w.lanes, lane{key: fmt.Sprintf("user:%04d", i), turns: []turn{{i % len(processes), 2 * time.Hour, 0}}})
	}
	at := serve(t, w, console.WithInterval(400*time.Millisecond))
	b := newTab(t)
	b.do(chromedp.Navigate(at + "/?limit=10000"))
	b.awaitWithin(3*patience, rows+" === 5000")
	b.do(chromedp.KeyEvent("/"))
	b.await(`document.activeElement.name === "prefix"`)
	// Only what can be seen has to go on.
	b.await("visible.size > 0 && visible.size < 100")
}

func TestTheStreamComesBack(t *testing.T) {
	eng := engine(t)
	c, err := console.New(eng, console.WithInterval(200*time.Millisecond))
	must(t, err)
	defer c.Close()
	start := func(at string) (*http.Server, string) {
		var l net.Listener
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			if l, err = net.Listen("tcp", at); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		s := &http.Server{Handler: c, ReadHeaderTimeout: patience}
		go s.Serve(l) // Close ends it
		return s, l.Addr().String()
	}
	server, at := start("127.0.0.1:0")
	b := newTab(t)
	b.do(chromedp.Navigate("http://" + at))
	b.await(`document.querySelector("#live.on")`)
	server.Close()
	b.await(`document.querySelector("#live.off")`)
	server, _ = start(at)
	defer server.Close()
	lease := acquire(t, eng, "group:7")
	defer lease.Release(context.Background())
	b.await(rows + ` === 1 && document.querySelector("#live.on")`)
	b.forgive("ERR_")
}
