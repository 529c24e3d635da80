"""What the archive's Django applications need before their models can be imported."""

import os


def start(settings_module):
    """Set up an application, with its tables, whose pages are asked as testserver."""
    os.environ["DJANGO_SETTINGS_MODULE"] = settings_module

    import django

    django.setup()

    from django.conf import settings
    from django.core.management import call_command

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)
