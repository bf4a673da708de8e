package poll_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/console/internal/poll"
	"github.com/keyturn/keyturn/core/driver"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func holder(pid string) driver.Holder {
	return driver.Holder{
		Owner: "h/" + pid + "/1/t0abcd/" + strings.Repeat("a1", 16), Token: 7, Rule: "POST /groups", Trace: traceparent,
		HeldFor: 3 * time.Second, Left: 9 * time.Second,
	}
}

// Whatever a store may show comes out as it went in.
func TestARowForgetsNothing(t *testing.T) {
	t.Parallel()
	change := func(f func(*driver.Holder)) []driver.Holder {
		h := holder("41")
		f(&h)
		return []driver.Holder{h}
	}
	for name, info := range map[string]driver.LockInfo{
		"plain":                    {Holders: change(func(*driver.Holder) {})},
		"lingers":                  {Holders: change(func(h *driver.Holder) { h.Lingers = true })},
		"shared":                   {Mode: driver.ModeShared, Holders: change(func(*driver.Holder) {})},
		"two holders":              {Mode: driver.ModeShared, Holders: []driver.Holder{holder("41"), holder("42")}},
		"no trace":                 {Holders: change(func(h *driver.Holder) { h.Trace = "" })},
		"another trace":            {Holders: change(func(h *driver.Holder) { h.Trace = "b3:1-2-3" })},
		"trace of a later version": {Holders: change(func(h *driver.Holder) { h.Trace = "01" + traceparent[2:] })},
		"foreign":                  {Holders: change(func(h *driver.Holder) { h.Owner, h.Token = "9f2c", 0 })},
		"foreign, with slash":      {Holders: change(func(h *driver.Holder) { h.Owner = "a/" + strings.Repeat("a1", 16) })},
		"owner in capitals":        {Holders: change(func(h *driver.Holder) { h.Owner = strings.ToUpper(h.Owner) })},
		"waiters":                  {Holders: change(func(*driver.Holder) {}), Waiters: []driver.Waiter{{Owner: "w", Waited: time.Second}}},
		"record":                   {Record: &driver.RecordInfo{Size: 3}},
	} {
		info.Key = "user:42"
		at := time.UnixMilli(1777604400123)
		r := poll.NewRow(at, info)
		got := r.Info()
		check(t, reflect.DeepEqual(got, info) && r.At().Equal(at), "%s:\n%+v\n%+v", name, got, info)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
