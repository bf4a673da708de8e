//go:build browser

package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/keyturn/keyturn/internal/checktest"
)

var must = checktest.Must

// patience bounds each thing that a test waits for: the browser shares the machine with other tests.
const patience = 20 * time.Second

var browser context.Context // of all tests; each has a tab of its own

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	profile, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(profile)
	// Nothing that reaches for the network by itself, and no state of somebody's.
	opts := []chromedp.ExecAllocatorOption{
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.UserDataDir(profile), chromedp.WindowSize(1280, 900),
	}
	alloc, end := chromedp.NewExecAllocator(context.Background(), opts...)
	defer end()
	ctx, stop := chromedp.NewContext(alloc)
	defer stop()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "these tests need Chromium, which scripts/ensure-packages browser installs:", err)
		return 1
	}
	browser = ctx
	code := m.Run()
	if err := chromedp.Cancel(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// tab is a tab of the browser. The test fails if a page of it says anything on the console: an error of the
// script, or something that the policy forbids.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	said     []string
	forgiven []string
}

func newTab(t *testing.T) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	b := &tab{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	var listener sync.WaitGroup
	listener.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			b.note(fmt.Sprint(m.Type, ": ", m.Text, " ", m.URL))
		}
	})
	t.Cleanup(func() {
		end()
		listener.Wait()
		for _, text := range b.said {
			if !slices.ContainsFunc(b.forgiven, func(part string) bool { return strings.Contains(text, part) }) {
				t.Errorf("the browser says: %s", text)
			}
		}
	})
	if err := chromedp.Do(ctx); err != nil { // opens the tab, so it must not have a timeout
		t.Fatal(err)
	}
	return b
}

func (b *tab) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, text)
}

// forgive lets messages with this text pass: those that a test provokes, which may come late.
func (b *tab) forgive(text string) { b.forgiven = append(b.forgiven, text) }

// do runs actions, which must not take long.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, patience)
}

// show sets how wide the page is, as on a telephone below 500 px, and whether it is "light" or "dark".
func (b *tab) show(width int64, scheme string) {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	_, err1 := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 760, DeviceScaleFactor: 1.5, Mobile: width < 500,
	})
	_, err2 := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err := errors.Join(err1, err2); err != nil {
		b.t.Fatal(err)
	}
}

// get runs an action that returns something.
func get[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := b.bounded()
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// ask returns what an expression of JavaScript is.
func ask[T any](b *tab, expression string) T {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](expression))
}

// await waits until an expression is true.
func (b *tab) await(expression string) {
	b.t.Helper()
	b.awaitWithin(patience, expression)
}

func (b *tab) awaitWithin(d time.Duration, expression string) {
	b.t.Helper()
	for end := time.Now().Add(d); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := b.bounded()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")")) // fails if the page goes on to another one
		cancel()
		if err == nil && is {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("not within %v: %s: %v\n%s", d, expression, err, ask[string](b, "document.body.innerText"))
		}
	}
}
