module github.com/keyturn/keyturn/keytmpl/nfc

go 1.25.0

require (
	github.com/keyturn/keyturn v0.0.0
	golang.org/x/text v0.39.0
)

replace github.com/keyturn/keyturn => ../../
