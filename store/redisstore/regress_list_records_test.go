package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
)

// The list of the keys that are held read all records of Once, only to leave them out: 38 s for a million.
func TestRecordsAreNotReadForAListOfLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, server.Client())
	const records = 300
	for i := range records {
		req := request(fmt.Sprint("o", i), fmt.Sprint("message:", i), time.Minute)
		g, _, err := s.Begin(within(t, time.Minute), req)
		if err == nil {
			err = s.Complete(within(t, time.Minute), g, driver.Record{Result: []byte("done")}, time.Hour)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	lock(t, s, "o", "held", time.Minute)
	eng, err := core.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	inspect(t, s, "held") // the server knows the script afterwards
	before := calls(t, server)
	n := 0
	for info, err := range eng.List(within(t, time.Minute), "") {
		if n++; err != nil || info.Key != "held" {
			t.Errorf("%+v, %v", info, err)
		}
	}
	if scripts := calls(t, server) - before; n != 1 || scripts != 1 {
		t.Errorf("%d keys, by %d scripts", n, scripts)
	}
	n = 0
	for range eng.ListAll(within(t, time.Minute), "") {
		n++
	}
	if n != records+1 {
		t.Errorf("%d keys with records", n)
	}
}
