package main

func Example() {
	main()
	// Output:
	// alone with user 42, under a fencing token: true
	// message 8f2c: delivered, a repeat: false
	// message 8f2c: delivered, a repeat: true
}
