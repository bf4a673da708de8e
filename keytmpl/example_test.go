package keytmpl_test

import (
	"fmt"

	"github.com/keyturn/keyturn/keytmpl"
)

func Example() {
	tmpl, err := keytmpl.Parse("group:{group.id}:{metadata.x-tenant}")
	if err != nil {
		fmt.Println(err)
		return
	}
	// At start: are these names that a request can have?
	for _, p := range tmpl.Placeholders() {
		fmt.Println(p, p.Path[0].Name)
	}
	// For every request: the values of the placeholders, by their index.
	request := []string{"7", "acme:eu"}
	key, err := tmpl.Key(func(i int) (string, error) { return request[i], nil })
	fmt.Println(key, err)
	// Output:
	// {group.id} group
	// {metadata.x-tenant} metadata
	// group:7:acme%3Aeu <nil>
}

func ExampleTemplate_Keys() {
	tmpl := keytmpl.MustParse("group:{group_id}:member:{members[*].id}")
	request := [][]string{{"7"}, {"42", "13", "42"}}
	keys, err := tmpl.Keys(func(i int) ([]string, error) { return request[i], nil })
	fmt.Println(keys, err)
	// Output: [group:7:member:13 group:7:member:42] <nil>
}

// Two ways to cut the same characters into two values are two keys, whatever
// stands between the placeholders.
func ExampleTemplate_Key_escaping() {
	show := func(tmpl *keytmpl.Template, values ...string) {
		key, _ := tmpl.Key(func(i int) (string, error) { return values[i], nil })
		fmt.Println(key)
	}
	colon := keytmpl.MustParse("{a}:{b}")
	show(colon, "1:2", "3")
	show(colon, "1", "2:3")
	show(colon, "1-2", "3")
	dash := keytmpl.MustParse("{a}-{b}")
	show(dash, "1-2", "3")
	show(dash, "1", "2-3")
	// Output:
	// 1%3A2:3
	// 1:2%3A3
	// 1-2:3
	// 1%2D2-3
	// 1-2-3
}

// A value of any length, such as a request's body, becomes a digest: the one that
// sha256sum prints.
func ExampleTemplate_Key_hash() {
	tmpl := keytmpl.MustParse("import:{body|hash}")
	key, err := tmpl.Key(func(int) (string, error) { return `{"file": "a.csv"}`, nil })
	fmt.Println(key, err)
	// Output: import:dd7b644327987594ca9a1ded9053016c011471d3513c77c9e1be43c302c6d6ac <nil>
}

func ExampleEscape() {
	fmt.Println("user:" + keytmpl.Escape("a:b c"))
	// Output: user:a%3Ab%20c
}
