"""`famulus demo`: one broker, two services, six workers and a murder, in less than a minute."""
