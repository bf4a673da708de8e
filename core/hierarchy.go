package core

import "strings"

// maxLevels is how many levels a key may have for [Under] and [WithHierarchy].
const maxLevels = 8

// Under claims a key with levels, such as one member of a group: the path as a
// whole exclusively and every level above it shared.
//
//	lease, err := eng.AcquireAll(ctx, core.Under("group:7", "member:42"))
//
// So who holds "group:7" exclusively excludes all who hold something under it,
// and those who hold different things under it don't exclude each other. (Locks
// of several granularities: J. Gray, R. Lorie, F. Putzolu and I. Traiger,
// Granularity of Locks in a Shared Data Base, 1975. An intention lock is a
// shared one here: whoever takes a level as a whole takes it exclusively.)
//
// The segments are joined by "/", and what ends before a "/" is a level, so that
// Under("a/b", "c") is Under("a", "b", "c"). A level can't be empty, and there
// are at most 8; otherwise the claim's Validate, and with it the
// acquisition, returns an error that matches ErrInvalidClaim. A segment that
// comes from outside should go through keytmpl.Escape, or its "/" adds a level.
//
// Several paths in one call share levels, which a set can't have twice:
// [WithHierarchy] puts them together.
func Under(path ...string) []Claim {
	return levels(Exclusive(strings.Join(path, "/")))
}

// levels returns leaf after a shared claim on each level above it.
func levels(leaf Claim) []Claim {
	switch n := strings.Count(leaf.Key, "/"); {
	case n == 0:
		return []Claim{leaf}
	case n >= maxLevels:
		leaf.Flaw = "has more than 8 levels"
		return []Claim{leaf}
	case strings.Contains("/"+leaf.Key+"/", "//"):
		leaf.Flaw = "has an empty level"
		return []Claim{leaf}
	}
	var claims []Claim
	for i, c := range []byte(leaf.Key) {
		if c == '/' {
			claims = append(claims, Shared(leaf.Key[:i]))
		}
	}
	return append(claims, leaf)
}

// merge gives each key one claim. Of two different modes neither may be enough
// for the other's purpose; exclusive is for both.
func merge(claims []Claim) []Claim {
	at := make(map[string]int, len(claims))
	merged := make([]Claim, 0, len(claims))
	for _, c := range claims {
		i, found := at[c.Key]
		switch {
		case !found:
			at[c.Key] = len(merged)
			merged = append(merged, c)
		case merged[i] != c && c.Flaw == "":
			merged[i] = Exclusive(c.Key)
		}
	}
	return merged
}
