package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/keyturn/keyturn/internal/lockjson"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	c := open(t, newFake(wanted(held("a", 41), 42), wanted(held("b", 42), 41), held("c", 43)))
	var all []lockjson.Lock
	var one lockjson.Lock
	var graph struct {
		Waits     []struct{ Key string }
		Deadlocks [][]struct {
			Key    string
			Waiter lockjson.Process
			Holder lockjson.Process
		}
	}
	for path, v := range map[string]any{"/api/locks?waiting=1": &all, "/api/lock?key=a": &one, "/api/graph": &graph} {
		if err := json.Unmarshal([]byte(get(t, c, path)), v); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if len(all) != 2 || all[0].Key != "a" || len(all[0].Waiters) != 1 || all[0].Holders[0].PID != 41 {
		t.Errorf("%+v", all)
	}
	if one.Key != "a" || *one.Holders[0].SinceMS < 90_000 || one.Holders[0].TraceID == "" {
		t.Errorf("%+v", one)
	}
	if len(graph.Waits) != 2 || len(graph.Deadlocks) != 1 || len(graph.Deadlocks[0]) != 2 || graph.Deadlocks[0][0].Waiter.Host != "im" {
		t.Errorf("%+v", graph)
	}
	if res := serve(c, httptest.NewRequest(http.MethodGet, "/api/lock?key=%7B", nil)); res.StatusCode != http.StatusBadRequest {
		t.Error(res.Status)
	}
}
