package fence

import (
	"testing"
	"time"
)

// Of several options about one matter the last one counts.
func TestTheLastOptionCounts(t *testing.T) {
	for _, tc := range []struct {
		opts []LockOption
		want config
	}{
		{[]LockOption{NoWait(), Within(time.Second)}, config{within: time.Second}},
		{[]LockOption{Within(time.Second), NoWait()}, config{noWait: true}},
		{[]LockOption{Within(time.Minute), Within(time.Second)}, config{within: time.Second}},
	} {
		if got, err := configure(tc.opts); err != nil || got.noWait != tc.want.noWait || got.within != tc.want.within {
			t.Errorf("%+v, %v; want %+v", got, err, tc.want)
		}
	}
	got, err := configure([]OnceOption{WithTables("a_"), WithTables("b_"), WithAttempts(1), WithAttempts(2)})
	if err != nil || got.prefix != "b_" || got.attempts != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := configure([]OnceOption{WithAttempts(0), WithAttempts(1)}); err == nil {
		t.Error("no error for a wrong option before a right one")
	}
}
