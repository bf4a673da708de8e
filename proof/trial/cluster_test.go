package trial

import "testing"

func TestSlotOf(t *testing.T) {
	for key, want := range map[string]int{"123456789": 12739, "foo": 12182, "{foo}:t": 12182, "": 0} {
		if got := slotOf(key); got != want {
			t.Errorf("%q has slot %d, want %d", key, got, want)
		}
	}
	// As redistest divides them: 0 to 5460, 5461 to 10921, and the rest.
	for key, want := range map[string]int{"": 0, "foo": 2, "123456789": 2} {
		if got := shardOf(key); got != want {
			t.Errorf("%q is in shard %d, want %d", key, got, want)
		}
	}
}
