module github.com/keyturn/keyturn/proof

go 1.25.0

require (
	github.com/keyturn/keyturn v0.0.0
	pgregory.net/rapid v1.2.0
)

replace github.com/keyturn/keyturn => ../
