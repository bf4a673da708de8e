package keytmpl

import (
	"fmt"
	"slices"
	"sync"
)

// known holds the filters that a template may name. A name in a template is text, also
// in a .proto file, so what it stands for is one thing in a whole process.
var known = struct {
	sync.Mutex
	filters []*Filter
}{filters: []*Filter{{"lower", lower}, {"int", integer}}}

// Register adds a filter to those that templates may use. It is for the init function
// of a package that a program imports for its filter, such as keytmpl/nfc: templates
// that were parsed before do not have it. It panics if the name is taken or is not one
// that a template can contain, or if f has no Apply. It may be called concurrently.
func Register(f *Filter) {
	if f == nil || f.Apply == nil {
		panic("keytmpl: Register: a filter without Apply")
	}
	if p := (parser{src: f.Name}); f.Name == "" || p.name() != f.Name {
		panic(fmt.Sprintf("keytmpl: Register: %q is no name for a filter: want letters, digits, '_' and '-'", f.Name))
	}
	known.Lock()
	defer known.Unlock()
	taken := slices.ContainsFunc(known.filters, func(other *Filter) bool { return other.Name == f.Name })
	if f.Name == hashFilter || taken {
		panic(fmt.Sprintf("keytmpl: Register: there is a filter %q already", f.Name))
	}
	known.filters = append(known.filters, f)
}

// registered returns the filters that there are now.
func registered() []*Filter {
	known.Lock()
	defer known.Unlock()
	return slices.Clip(known.filters)
}
